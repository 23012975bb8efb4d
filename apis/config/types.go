// SPDX-License-Identifier: Apache-2.0

package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// CapacityType is the kind of capacity that a node offers.
type CapacityType string

const (
	// CapacityTypeSpot is capacity that the provider may reclaim at short notice.
	CapacityTypeSpot CapacityType = "spot"

	// CapacityTypeOnDemand is capacity that the provider does not reclaim.
	CapacityTypeOnDemand CapacityType = "on-demand"
)

// NodeRuleOperator specifies what a NodeRule requires of a node label.
type NodeRuleOperator string

const (
	// NodeRuleIn matches if the label's value is one of the rule's values.
	NodeRuleIn NodeRuleOperator = "In"

	// NodeRuleExists matches if the label is present, with any value.
	NodeRuleExists NodeRuleOperator = "Exists"

	// NodeRuleAbsent matches if the label is absent.
	NodeRuleAbsent NodeRuleOperator = "Absent"
)

// RequiresNothing as NodeRule.Requires applies an Absent rule to every node.
const RequiresNothing = "*"

// BuiltinNodeRules specifies whether the node rules that Berth ships are used.
type BuiltinNodeRules string

const (
	// BuiltinNodeRulesAppend evaluates the shipped rules after the configured ones.
	BuiltinNodeRulesAppend BuiltinNodeRules = "Append"

	// BuiltinNodeRulesOff uses only the configured rules.
	BuiltinNodeRulesOff BuiltinNodeRules = "Off"
)

// WhenSpotUnavailable specifies what happens to a pod of a spot slot when no spot node has free capacity for it.
type WhenSpotUnavailable string

const (
	// WhenSpotUnavailableOnDemand allows the pod to run on an on-demand node.
	WhenSpotUnavailableOnDemand WhenSpotUnavailable = "OnDemand"

	// WhenSpotUnavailableWait keeps the pod pending until a spot node has free capacity.
	WhenSpotUnavailableWait WhenSpotUnavailable = "Wait"
)

// WhenOnDemandUnavailable specifies what happens to a pod of an on-demand slot when no on-demand node has free capacity
// for it.
type WhenOnDemandUnavailable string

const (
	// WhenOnDemandUnavailableWait keeps the pod pending until an on-demand node has free capacity.
	WhenOnDemandUnavailableWait WhenOnDemandUnavailable = "Wait"

	// WhenOnDemandUnavailableSpot allows the pod to run on a spot node.
	WhenOnDemandUnavailableSpot WhenOnDemandUnavailable = "Spot"
)

// RankSampleBy specifies which nodes of the sample are passed to the other plugins: "LeastAllocated", "MostAllocated"
// or "Off". It should match the scoring strategy of NodeResourcesFit in the same profile.
type RankSampleBy string

const (
	// RankSampleByLeastAllocated prefers nodes with more free CPU and memory.
	RankSampleByLeastAllocated RankSampleBy = "LeastAllocated"

	// RankSampleByMostAllocated prefers nodes with less free CPU and memory, so that others become empty.
	RankSampleByMostAllocated RankSampleBy = "MostAllocated"

	// RankSampleByOff passes the whole sample.
	RankSampleByOff RankSampleBy = "Off"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CapacityMixArgs are the arguments of the CapacityMix plugin.
type CapacityMixArgs struct {
	metav1.TypeMeta

	// NodeRules determine the capacity type of a node. The first rule that matches decides. A node that no rule matches
	// has an unknown type and is feasible for no slot.
	NodeRules []NodeRule

	// BuiltinNodeRules specifies whether the shipped rules follow NodeRules.
	BuiltinNodeRules BuiltinNodeRules

	// DefaultMix governs pods whose mix is set by neither annotations nor a CapacityMix. If nil, the plugin ignores
	// such pods.
	DefaultMix *MixSpec

	// AnnotationPrefixes are the supported prefixes of mix annotations.
	AnnotationPrefixes []string

	// SpotalisNamespaces are the namespaces in which annotations with the prefix spotalis.io are read. Nil means all.
	SpotalisNamespaces []string

	// OnePodKinds are the kinds of owners that have one pod each.
	OnePodKinds []OnePodKind

	// SpreadSpotOver are the node label keys whose values together identify an interruption domain, for mixes that list
	// none.
	SpreadSpotOver []string

	// InterruptionsNamespace is the namespace of the ConfigMap with the interruption domains that are in quarantine.
	InterruptionsNamespace string

	// NodeSampleSize is the number of nodes that are considered first for a pod. 0 considers all nodes.
	NodeSampleSize int32

	// RankSampleBy specifies which nodes of the sample are passed to the other plugins.
	RankSampleBy RankSampleBy

	// SyncTimeoutSeconds is the maximum time for the plugin's caches to synchronize at startup.
	SyncTimeoutSeconds int32

	// CapacityTypeLabel is the node label that limits pods with a scheduling gate to their capacity type. If nil, it is
	// derived from the node rules.
	CapacityTypeLabel *CapacityTypeLabel
}

// OnePodKind is a kind of owners that have one pod each. Their pods are grouped by the set of the owner.
type OnePodKind struct {
	// APIGroup is the API group of the kind.
	APIGroup string

	// Kind is the kind.
	Kind string

	// SetLabel is the label of the pods that names the set of the owner. If empty, or absent on a pod, all pods of the
	// kind that one mix governs form a group.
	SetLabel string
}

// CapacityTypeLabel is a node label whose value is the capacity type. An empty value matches nodes without the
// label.
type CapacityTypeLabel struct {
	// Key is the key of the label.
	Key string

	// Spot is the value of the label on spot nodes.
	Spot string

	// OnDemand is the value of the label on on-demand nodes.
	OnDemand string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceLimitArgs are the arguments of the ResourceLimit plugin.
type ResourceLimitArgs struct {
	metav1.TypeMeta

	// DefaultNamespace is the namespace of a ResourceLimit that a pod names and that does not exist in the pod's own
	// namespace. If empty, only the pod's own namespace is used.
	DefaultNamespace string

	// SyncTimeoutSeconds is the maximum time for the plugin's caches to synchronize at startup.
	SyncTimeoutSeconds int32
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SchedulingPolicyArgs are the arguments of the SchedulingPolicy plugin.
type SchedulingPolicyArgs struct {
	metav1.TypeMeta

	// DefaultPolicy are the rules for pods that no SchedulingPolicy governs. If nil, the other plugins of the profile score
	// the nodes of such pods.
	DefaultPolicy *v1alpha1.SchedulingRules

	// LockNamespace is the namespace of the Leases by which nodes are locked for policies with bind mode Pessimistic.
	LockNamespace string

	// SyncTimeoutSeconds is the maximum time for the plugin's caches to synchronize at startup.
	SyncTimeoutSeconds int32
}

// NodeRule assigns a capacity type to the nodes with certain labels.
type NodeRule struct {
	// Name is the name of the rule in messages. It may be empty.
	Name string

	// Key is the key of the node label that the rule evaluates.
	Key string

	// Operator specifies what the rule requires of the label.
	Operator NodeRuleOperator

	// Values are the label values of operator In.
	Values []string

	// Requires is the key of a label that a node must have for the rule to apply. If empty, none is required. With
	// operator Absent it is never empty: RequiresNothing requires none.
	Requires string

	// CapacityType is the capacity type of a node that the rule matches.
	CapacityType CapacityType
}

// MixSpec is a mix. Its fields have the meaning of the fields of the same names in a CapacityMix.
type MixSpec struct {
	// SpotPercent is the percentage of replicas on spot nodes, from 0 to 100.
	SpotPercent int32

	// MinOnDemand is the number of replicas that stay on on-demand nodes.
	MinOnDemand int32

	// MaxSpot is the maximum number of replicas on spot nodes. If nil, the number is not limited.
	MaxSpot *int32

	// WhenSpotUnavailable specifies what happens to a pod of a spot slot when no spot node has free capacity.
	WhenSpotUnavailable WhenSpotUnavailable

	// SpotWaitSeconds is the time for which a pod of a spot slot waits before it may run on an on-demand node. If nil,
	// it is 900 for pods with the scheduling gate and 0 for all others.
	SpotWaitSeconds *int32

	// WhenOnDemandUnavailable specifies what happens to a pod of an on-demand slot when no on-demand node has free
	// capacity.
	WhenOnDemandUnavailable WhenOnDemandUnavailable
}
