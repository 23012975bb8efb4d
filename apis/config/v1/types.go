// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityType is the kind of capacity that a node offers: "spot" or "on-demand".
type CapacityType string

const (
	// CapacityTypeSpot is capacity that the provider may take back at short notice.
	CapacityTypeSpot CapacityType = "spot"

	// CapacityTypeOnDemand is capacity that stays until it is given back.
	CapacityTypeOnDemand CapacityType = "on-demand"
)

// NodeRuleOperator says what a NodeRule asks of a node label: "In", "Exists" or "Absent".
type NodeRuleOperator string

const (
	// NodeRuleIn holds when the label's value is one of the rule's values.
	NodeRuleIn NodeRuleOperator = "In"

	// NodeRuleExists holds when the label is present, with any value.
	NodeRuleExists NodeRuleOperator = "Exists"

	// NodeRuleAbsent holds when the label is absent.
	NodeRuleAbsent NodeRuleOperator = "Absent"
)

// BuiltinNodeRules says what happens to the node rules that Berth ships: "Append" or "Off".
type BuiltinNodeRules string

const (
	// BuiltinNodeRulesAppend tries the shipped rules after the configured ones.
	BuiltinNodeRulesAppend BuiltinNodeRules = "Append"

	// BuiltinNodeRulesOff leaves the configured rules alone.
	BuiltinNodeRulesOff BuiltinNodeRules = "Off"
)

// WhenSpotUnavailable says what a pod of a spot slot does when no spot node has room for it: "OnDemand" or "Wait".
type WhenSpotUnavailable string

const (
	// WhenSpotUnavailableOnDemand lets the pod borrow room on an on-demand node.
	WhenSpotUnavailableOnDemand WhenSpotUnavailable = "OnDemand"

	// WhenSpotUnavailableWait keeps the pod pending until a spot node has room.
	WhenSpotUnavailableWait WhenSpotUnavailable = "Wait"
)

// WhenOnDemandUnavailable says what a pod of an on-demand slot does when no on-demand node has room for it:
// "Wait" or "Spot".
type WhenOnDemandUnavailable string

const (
	// WhenOnDemandUnavailableWait keeps the pod pending until an on-demand node has room.
	WhenOnDemandUnavailableWait WhenOnDemandUnavailable = "Wait"

	// WhenOnDemandUnavailableSpot lets the pod borrow room on a spot node.
	WhenOnDemandUnavailableSpot WhenOnDemandUnavailable = "Spot"
)

// RankSampleBy says which of the nodes that are looked at for a pod go on to the other plugins: "LeastAllocated",
// "MostAllocated" or "Off". It is to be as the scoring strategy of NodeResourcesFit in the same profile.
type RankSampleBy string

const (
	// RankSampleByLeastAllocated prefers nodes with much CPU and memory left.
	RankSampleByLeastAllocated RankSampleBy = "LeastAllocated"

	// RankSampleByMostAllocated prefers nodes with little left, so that others run empty.
	RankSampleByMostAllocated RankSampleBy = "MostAllocated"

	// RankSampleByOff hands all of them on.
	RankSampleByOff RankSampleBy = "Off"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// CapacityMixArgs are the arguments of the CapacityMix plugin.
type CapacityMixArgs struct {
	metav1.TypeMeta `json:",inline"`

	// nodeRules is an ordered list of at most 64 rules that give a node its capacity type. The first rule that holds
	// decides; a node for which none holds has an unknown type and takes no pod that has a mix.
	// Absent or empty means the rules that Berth ships, which know the labels of the common providers.
	//
	// +optional
	// +listType=atomic
	NodeRules []NodeRule `json:"nodeRules,omitempty"`

	// builtinNodeRules says whether the shipped rules are tried after nodeRules: Append (the default) or Off.
	// Off needs at least one rule in nodeRules.
	//
	// +optional
	BuiltinNodeRules BuiltinNodeRules `json:"builtinNodeRules,omitempty"`

	// defaultMix governs the pods that have no mix from annotations or a CapacityMix.
	// Absent means that such pods are left alone.
	//
	// +optional
	DefaultMix *MixSpec `json:"defaultMix,omitempty"`

	// annotationPrefixes lists the prefixes of the mix annotations that are read, the first found wins:
	// berth.dev, spotalis.io, or both. Absent means [berth.dev].
	//
	// +optional
	// +listType=atomic
	AnnotationPrefixes []string `json:"annotationPrefixes,omitempty"`

	// spreadSpotOver lists 1 to 4 node label keys. Nodes with equal values of all of them form one interruption domain,
	// and spot pods are spread over these domains. A CapacityMix may list its own.
	// Absent means [topology.kubernetes.io/zone, node.kubernetes.io/instance-type].
	//
	// +optional
	// +listType=atomic
	SpreadSpotOver []string `json:"spreadSpotOver,omitempty"`

	// nodeSampleSize is the number of nodes of its capacity type that are looked at for a pod first, from 16 to 1000, so
	// that scheduling costs the same in a small and a large cluster. The best of them, an eighth but no fewer than 4, go
	// through the filters and scores of all plugins; of a pod with preferences of its own the whole sample does. When none
	// of them fits, all nodes are tried. 0 tries all nodes at once. Absent means 32.
	//
	// +optional
	NodeSampleSize *int32 `json:"nodeSampleSize,omitempty"`

	// rankSampleBy says which of the nodes that are looked at go on: LeastAllocated (the default), MostAllocated for
	// profiles whose NodeResourcesFit packs nodes full, or Off for all of them. Siblings of the pod around a node count
	// against it in either case.
	//
	// +optional
	RankSampleBy RankSampleBy `json:"rankSampleBy,omitempty"`

	// syncTimeoutSeconds bounds the wait for the plugin's caches at start, from 1 to 600 seconds. The scheduler stops
	// with a message when it is over. Absent means 60.
	//
	// +optional
	SyncTimeoutSeconds *int32 `json:"syncTimeoutSeconds,omitempty"`

	// capacityTypeLabel is the node label by which pods with the scheduling gate berth.dev/capacity-mix are limited to
	// their capacity type, in a way that every scheduler and autoscaler understands. Its values must be ones that the
	// node rules know. Absent means the key and first values of the first two nodeRules with operator In that have the
	// same key and different types; else, unless builtinNodeRules is Off, karpenter.sh/capacity-type with the values spot
	// and on-demand.
	//
	// +optional
	CapacityTypeLabel *CapacityTypeLabel `json:"capacityTypeLabel,omitempty"`
}

// CapacityTypeLabel is a node label that says the capacity type. At most one of the two values may be empty, which
// stands for the nodes without the label, as on GKE and AKS.
type CapacityTypeLabel struct {
	// key is the label's key.
	//
	// +required
	Key string `json:"key"`

	// spot is the label's value on spot nodes.
	//
	// +optional
	Spot string `json:"spot,omitempty"`

	// onDemand is the label's value on on-demand nodes.
	//
	// +optional
	OnDemand string `json:"onDemand,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// ResourceLimitArgs are the arguments of the ResourceLimit plugin.
type ResourceLimitArgs struct {
	metav1.TypeMeta `json:",inline"`

	// defaultNamespace is the namespace in which a ResourceLimit is looked for that a pod names and that its own
	// namespace has not. Absent means that it is looked for nowhere else.
	//
	// +optional
	DefaultNamespace string `json:"defaultNamespace,omitempty"`

	// syncTimeoutSeconds bounds the wait for the plugin's caches at start, from 1 to 600 seconds. The scheduler stops
	// with a message when it is over. Absent means 60.
	//
	// +optional
	SyncTimeoutSeconds *int32 `json:"syncTimeoutSeconds,omitempty"`
}

// NodeRule gives a capacity type to the nodes with certain labels.
type NodeRule struct {
	// name is used in messages, at most 63 characters; names must differ. Absent means the rule's place in the list.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// key is the node label key that the rule looks at.
	//
	// +required
	Key string `json:"key"`

	// operator says what must hold for that label: its value is one of values (In), it is present (Exists),
	// or it is absent (Absent).
	//
	// +required
	Operator NodeRuleOperator `json:"operator"`

	// values are the label values of operator In, 1 to 64. Exists and Absent take none.
	//
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`

	// requires is the key of a label that a node must have for the rule to apply. Absent requests none.
	// Operator Absent needs it, since most nodes lack most labels: name a label that every node of that provider has,
	// or write "*" to let the rule apply to every node.
	//
	// +optional
	Requires string `json:"requires,omitempty"`

	// capacityType is the type of a node for which the rule holds: spot or on-demand.
	//
	// +required
	CapacityType CapacityType `json:"capacityType"`
}

// MixSpec is a mix, with the meaning, bounds and defaults of the fields of the same names in a CapacityMix.
type MixSpec struct {
	// spotPercent is the share of replicas on spot nodes, from 0 to 100.
	//
	// +required
	SpotPercent *int32 `json:"spotPercent,omitempty"`

	// minOnDemand is the number of replicas that stay on on-demand nodes, from 0 to 1000000. Absent means 0.
	//
	// +optional
	MinOnDemand *int32 `json:"minOnDemand,omitempty"`

	// maxSpot is the largest number of replicas on spot nodes, from 0 to 1000000. Absent means no such bound.
	//
	// +optional
	MaxSpot *int32 `json:"maxSpot,omitempty"`

	// whenSpotUnavailable says what a spot pod does when no spot node has room: OnDemand (the default) or Wait.
	//
	// +optional
	WhenSpotUnavailable WhenSpotUnavailable `json:"whenSpotUnavailable,omitempty"`

	// spotWaitSeconds is how long a spot pod waits before it may run on an on-demand node, from 0 to 86400 seconds.
	// Absent means 0, and 900 for pods with the scheduling gate berth.dev/capacity-mix. It may be other than 0 only with
	// whenSpotUnavailable OnDemand.
	//
	// +optional
	SpotWaitSeconds *int32 `json:"spotWaitSeconds,omitempty"`

	// whenOnDemandUnavailable says what an on-demand pod does when no on-demand node has room: Wait (the default) or Spot.
	//
	// +optional
	WhenOnDemandUnavailable WhenOnDemandUnavailable `json:"whenOnDemandUnavailable,omitempty"`
}
