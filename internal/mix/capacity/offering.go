// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Offering is what a node was sold as: what its price depends on, apart from its labels.
type Offering struct {
	InstanceType, Region, Zone string
	// CPU in millicores and Memory in bytes are those of the machine. A part of them is not for pods.
	CPU, Memory int64
	// Reserved capacity is paid for whether it is used or not.
	Reserved bool
	// Simulated is set where there is no machine: KWOK simulates the node.
	Simulated bool
}

// KarpenterReserved is the value of Karpenter's label of capacity types for reserved capacity.
const KarpenterReserved = "reserved"

const (
	// KWOKProvider begins the provider ID of a node that Karpenter's provider for KWOK made.
	KWOKProvider = "kwok://"
	// kwokNode is KWOK's label and annotation of a node without a machine.
	kwokNode = "kwok.x-k8s.io/node"
)

// OfferingOf returns what a node was sold as.
func OfferingOf(n *corev1.Node) Offering {
	return Offering{
		InstanceType: n.Labels[corev1.LabelInstanceTypeStable], Region: n.Labels[corev1.LabelTopologyRegion],
		Zone: n.Labels[corev1.LabelTopologyZone],
		CPU:  n.Status.Capacity.Cpu().MilliValue(), Memory: n.Status.Capacity.Memory().Value(),
		Reserved: n.Labels[KarpenterCapacityType] == KarpenterReserved, Simulated: simulated(n),
	}
}

func simulated(n *corev1.Node) bool {
	_, labelled := n.Labels[kwokNode]
	_, annotated := n.Annotations[kwokNode]
	return labelled || annotated || strings.HasPrefix(n.Spec.ProviderID, KWOKProvider)
}
