// SPDX-License-Identifier: Apache-2.0

package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityType is the kind of capacity that a node offers.
type CapacityType string

const (
	// CapacityTypeSpot is capacity that the provider may take back at short notice.
	CapacityTypeSpot CapacityType = "spot"

	// CapacityTypeOnDemand is capacity that stays until it is given back.
	CapacityTypeOnDemand CapacityType = "on-demand"
)

// NodeRuleOperator says what a NodeRule asks of a node label.
type NodeRuleOperator string

const (
	// NodeRuleIn holds when the label's value is one of the rule's values.
	NodeRuleIn NodeRuleOperator = "In"

	// NodeRuleExists holds when the label is present, with any value.
	NodeRuleExists NodeRuleOperator = "Exists"

	// NodeRuleAbsent holds when the label is absent.
	NodeRuleAbsent NodeRuleOperator = "Absent"
)

// RequiresNothing as NodeRule.Requires lets an Absent rule apply to every node.
const RequiresNothing = "*"

// BuiltinNodeRules says what happens to the node rules that Berth ships.
type BuiltinNodeRules string

const (
	// BuiltinNodeRulesAppend tries the shipped rules after the configured ones.
	BuiltinNodeRulesAppend BuiltinNodeRules = "Append"

	// BuiltinNodeRulesOff leaves the configured rules alone.
	BuiltinNodeRulesOff BuiltinNodeRules = "Off"
)

// WhenSpotUnavailable says what a pod of a spot slot does when no spot node has room for it.
type WhenSpotUnavailable string

const (
	// WhenSpotUnavailableOnDemand lets the pod borrow room on an on-demand node.
	WhenSpotUnavailableOnDemand WhenSpotUnavailable = "OnDemand"

	// WhenSpotUnavailableWait keeps the pod pending until a spot node has room.
	WhenSpotUnavailableWait WhenSpotUnavailable = "Wait"
)

// WhenOnDemandUnavailable says what a pod of an on-demand slot does when no on-demand node has room for it.
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

// CapacityMixArgs are the arguments of the CapacityMix plugin.
type CapacityMixArgs struct {
	metav1.TypeMeta

	// NodeRules give a node its capacity type. The first rule that holds decides; a node for which none holds has an
	// unknown type and satisfies no slot.
	NodeRules []NodeRule

	// BuiltinNodeRules says whether the shipped rules come after NodeRules.
	BuiltinNodeRules BuiltinNodeRules

	// DefaultMix governs pods that have no mix from annotations or a CapacityMix. With nil they are left alone.
	DefaultMix *MixSpec

	// AnnotationPrefixes are the prefixes of mix annotations that are read.
	AnnotationPrefixes []string

	// SpreadSpotOver are the node label keys whose values together name an interruption domain, for mixes that list none.
	SpreadSpotOver []string

	// NodeSampleSize is the number of nodes that are looked at for a pod first. 0 tries all nodes at once.
	NodeSampleSize int32

	// RankSampleBy says which of these nodes go on to the other plugins.
	RankSampleBy RankSampleBy

	// SyncTimeoutSeconds bounds the wait for the plugin's caches at start.
	SyncTimeoutSeconds int32

	// CapacityTypeLabel is the node label by which pods with a scheduling gate are limited to their capacity type. Nil
	// means the one of the node rules.
	CapacityTypeLabel *CapacityTypeLabel
}

// CapacityTypeLabel is a node label that says the capacity type. An empty value stands for nodes without the label.
type CapacityTypeLabel struct {
	// Key is the label's key.
	Key string

	// Spot is its value on spot nodes.
	Spot string

	// OnDemand is its value on on-demand nodes.
	OnDemand string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceLimitArgs are the arguments of the ResourceLimit plugin.
type ResourceLimitArgs struct {
	metav1.TypeMeta

	// DefaultNamespace is where a ResourceLimit is looked for that a pod names and that its namespace has not.
	// Empty looks nowhere else.
	DefaultNamespace string

	// SyncTimeoutSeconds bounds the wait for the plugin's caches at start.
	SyncTimeoutSeconds int32
}

// NodeRule gives a capacity type to the nodes with certain labels.
type NodeRule struct {
	// Name is for messages, and may be empty.
	Name string

	// Key is the node label that the rule looks at.
	Key string

	// Operator says what must hold for that label.
	Operator NodeRuleOperator

	// Values are the label values of operator In.
	Values []string

	// Requires is the key of a label that a node must have for the rule to apply. Empty requests none.
	// With operator Absent it is never empty: RequiresNothing requests none.
	Requires string

	// CapacityType is the type of a node for which the rule holds.
	CapacityType CapacityType
}

// MixSpec is a mix, with the meaning of the fields of the same names in a CapacityMix.
type MixSpec struct {
	// SpotPercent is the share of replicas on spot nodes, from 0 to 100.
	SpotPercent int32

	// MinOnDemand is the number of replicas that stay on on-demand nodes.
	MinOnDemand int32

	// MaxSpot is the largest number of replicas on spot nodes. Nil means no such bound.
	MaxSpot *int32

	// WhenSpotUnavailable says what a spot pod does when no spot node has room.
	WhenSpotUnavailable WhenSpotUnavailable

	// SpotWaitSeconds is how long a spot pod waits before it may borrow. Nil means 0, and 900 for pods with the gate.
	SpotWaitSeconds *int32

	// WhenOnDemandUnavailable says what an on-demand pod does when no on-demand node has room.
	WhenOnDemandUnavailable WhenOnDemandUnavailable
}
