// SPDX-License-Identifier: Apache-2.0

package savings

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/prices"
)

// kwokNode is KWOK's label and annotation of a node without a machine.
const kwokNode = "kwok.x-k8s.io/node"

// node is a node with its prices, once they were looked up.
type node struct {
	object   *corev1.Node
	quoted   bool
	quote    prices.Quote
	why      string
	reserved bool
}

// part returns the node of a pod and the part of it that the pod requests, or why there is none.
func (b *builder) part(p *Pod) (part float64, n *node, why string) {
	if p.Node == "" {
		return 0, nil, "the pod has no node"
	}
	if n = b.nodes[p.Node]; n == nil {
		return 0, nil, "the node was not read"
	}
	n.reserved = n.object.Labels[capacity.KarpenterCapacityType] == prices.Reserved
	all := weight(n.object.Status.Allocatable)
	requested := prices.Weight(float64(p.MilliCPU)/1000, float64(p.Memory))
	switch {
	case !n.reserved && p.NodeType != capacity.Spot.String() && p.NodeType != capacity.OnDemand.String():
		return 0, nil, "the node is of unknown type"
	case all <= 0:
		return 0, nil, "the node reports no CPU and memory"
	case requested <= 0:
		return 0, nil, "the pod requests no CPU and memory"
	}
	return min(requested/all, 1), n, ""
}

// quote returns the prices of a node, or why it has none.
func (b *builder) quote(n *node) (prices.Quote, string) {
	if n.quoted {
		return n.quote, n.why
	}
	labels := n.object.Labels
	of := prices.Node{
		Labels: labels, InstanceType: labels[corev1.LabelInstanceTypeStable], Region: labels[corev1.LabelTopologyRegion],
		Zone: labels[corev1.LabelTopologyZone],
		CPU:  n.object.Status.Capacity.Cpu().AsApproximateFloat64(), Memory: n.object.Status.Capacity.Memory().AsApproximateFloat64(),
		Simulated: simulated(n.object),
	}
	n.quoted, n.quote = true, b.book.Of(&of)
	switch {
	case n.quote.OnDemand.Known() && n.quote.Spot.Known():
	case of.InstanceType == "":
		n.why = "the node has no label " + corev1.LabelInstanceTypeStable
	case n.quote.OnDemand.Known():
		n.why = fmt.Sprintf("no spot price of %s in %s", of.InstanceType, of.Region)
	default:
		n.why = fmt.Sprintf("no on-demand price of %s in %s", of.InstanceType, of.Region)
	}
	return n.quote, n.why
}

// simulated reports whether a node has no machine: KWOK simulates it.
func simulated(n *corev1.Node) bool {
	_, labelled := n.Labels[kwokNode]
	_, annotated := n.Annotations[kwokNode]
	return labelled || annotated || strings.HasPrefix(n.Spec.ProviderID, prices.KWOKProvider)
}

// weight is the price of CPU and memory by rates: how much of a node they are.
func weight(r corev1.ResourceList) float64 {
	return prices.Weight(r.Cpu().AsApproximateFloat64(), r.Memory().AsApproximateFloat64())
}
