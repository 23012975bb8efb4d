// SPDX-License-Identifier: Apache-2.0

package savings

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/prices"
)

// Node is a node as far as the costs of its pods depend on it.
type Node struct {
	capacity.Offering
	// Labels are those that prices can depend on.
	Labels map[string]string
	// Type is the capacity type. That of a pod has precedence.
	Type string
	// MilliCPU, in millicores, and Memory, in bytes, are what the node has for pods.
	MilliCPU, MemoryForPods int64
}

// NodeOf returns what costs depend on, without the type.
func NodeOf(n *corev1.Node) Node {
	return Node{
		Offering: capacity.OfferingOf(n), Labels: n.Labels,
		MilliCPU: n.Status.Allocatable.Cpu().MilliValue(), MemoryForPods: n.Status.Allocatable.Memory().Value(),
	}
}

// node is a node with its prices, once they were looked up, and the number of pods that have a price of them.
type node struct {
	Node
	weight float64
	quoted bool
	quote  prices.Quote
	why    string
	priced int
}

// meter finds what pods cost. It looks up each node once.
type meter struct {
	book *prices.Book
	find func(name string) (Node, bool)
	// nodes has nil for nodes that are not known.
	nodes map[string]*node
}

func newMeter(book *prices.Book, find func(name string) (Node, bool)) meter {
	return meter{book: book, find: find, nodes: map[string]*node{}}
}

func (m *meter) node(name string) *node {
	n, looked := m.nodes[name]
	if looked {
		return n
	}
	if of, there := m.find(name); there {
		n = &node{Node: of, weight: weight(of.MilliCPU, of.MemoryForPods)}
	}
	m.nodes[name] = n
	return n
}

// part returns the node of a pod and the part of it that the pod requests, or why there is none.
func (m *meter) part(p *Pod) (part float64, n *node, why string) {
	if p.Node == "" {
		return 0, nil, "the pod has no node"
	}
	if n = m.node(p.Node); n == nil {
		return 0, nil, "the node was not read"
	}
	t, requested := n.typeOf(p), weight(p.MilliCPU, p.Memory)
	switch {
	case !n.Reserved && t != capacity.Spot.String() && t != capacity.OnDemand.String():
		return 0, nil, "the node is of unknown type"
	case n.weight <= 0:
		return 0, nil, "the node reports no CPU and memory"
	case requested <= 0:
		return 0, nil, "the pod requests no CPU and memory"
	}
	return min(requested/n.weight, 1), n, ""
}

// typeOf is the type of the node of a pod.
func (n *node) typeOf(p *Pod) string {
	if p.NodeType != "" {
		return p.NodeType
	}
	return n.Type
}

// price looks up the prices of a node, and returns why it has none.
func (m *meter) price(n *node) string {
	if n.quoted {
		return n.why
	}
	n.quoted, n.quote = true, m.book.Of(&prices.Node{
		Labels: n.Labels, InstanceType: n.InstanceType, Region: n.Region, Zone: n.Zone, Simulated: n.Simulated,
		CPU: cores(n.CPU), Memory: float64(n.Memory),
	})
	switch {
	case n.quote.OnDemand.Known() && n.quote.Spot.Known():
	case n.InstanceType == "":
		n.why = "the node has no label " + corev1.LabelInstanceTypeStable
	case n.quote.OnDemand.Known():
		n.why = fmt.Sprintf("no spot price of %s in %s", n.InstanceType, n.Region)
	default:
		n.why = fmt.Sprintf("no on-demand price of %s in %s", n.InstanceType, n.Region)
	}
	return n.why
}

func cores(milli int64) float64 { return float64(milli) / 1000 }

// weight is the price of CPU and memory by rates: how much of a node they are.
func weight(milliCPU, memory int64) float64 { return prices.Weight(cores(milliCPU), float64(memory)) }
