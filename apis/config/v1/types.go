// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// CapacityType is the kind of capacity that a node offers: "spot" or "on-demand".
type CapacityType string

const (
	// CapacityTypeSpot is capacity that the provider may reclaim at short notice.
	CapacityTypeSpot CapacityType = "spot"

	// CapacityTypeOnDemand is capacity that the provider does not reclaim.
	CapacityTypeOnDemand CapacityType = "on-demand"
)

// NodeRuleOperator specifies what a NodeRule requires of a node label: "In", "Exists" or "Absent".
type NodeRuleOperator string

const (
	// NodeRuleIn matches if the label's value is one of the rule's values.
	NodeRuleIn NodeRuleOperator = "In"

	// NodeRuleExists matches if the label is present, with any value.
	NodeRuleExists NodeRuleOperator = "Exists"

	// NodeRuleAbsent matches if the label is absent.
	NodeRuleAbsent NodeRuleOperator = "Absent"
)

// BuiltinNodeRules specifies whether the node rules that Berth ships are used: "Append" or "Off".
type BuiltinNodeRules string

const (
	// BuiltinNodeRulesAppend evaluates the shipped rules after the configured ones.
	BuiltinNodeRulesAppend BuiltinNodeRules = "Append"

	// BuiltinNodeRulesOff uses only the configured rules.
	BuiltinNodeRulesOff BuiltinNodeRules = "Off"
)

// WhenSpotUnavailable specifies what happens to a pod of a spot slot when no spot node has free capacity for it:
// "OnDemand" or "Wait".
type WhenSpotUnavailable string

const (
	// WhenSpotUnavailableOnDemand allows the pod to run on an on-demand node.
	WhenSpotUnavailableOnDemand WhenSpotUnavailable = "OnDemand"

	// WhenSpotUnavailableWait keeps the pod pending until a spot node has free capacity.
	WhenSpotUnavailableWait WhenSpotUnavailable = "Wait"
)

// WhenOnDemandUnavailable specifies what happens to a pod of an on-demand slot when no on-demand node has free capacity
// for it: "Wait" or "Spot".
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
// +kubebuilder:object:root=true

// CapacityMixArgs are the arguments of the CapacityMix plugin.
type CapacityMixArgs struct {
	metav1.TypeMeta `json:",inline"`

	// nodeRules is an ordered list of at most 64 rules that determine the capacity type of a node. The first rule that
	// matches decides. A node that no rule matches has an unknown type and is feasible for no pod with a mix. Defaults
	// to the rules that Berth ships, which support the labels of common providers.
	//
	// +optional
	// +listType=atomic
	NodeRules []NodeRule `json:"nodeRules,omitempty"`

	// builtinNodeRules specifies whether the shipped rules are evaluated after nodeRules: Append or Off. Off requires
	// at least one rule in nodeRules. Defaults to Append.
	//
	// +optional
	BuiltinNodeRules BuiltinNodeRules `json:"builtinNodeRules,omitempty"`

	// defaultMix governs pods whose mix is set by neither annotations nor a CapacityMix. If unset, the plugin ignores
	// such pods.
	//
	// +optional
	DefaultMix *MixSpec `json:"defaultMix,omitempty"`

	// annotationPrefixes is the list of supported prefixes of mix annotations: berth.dev, spotalis.io, or both. The
	// first one found takes precedence. Defaults to [berth.dev].
	//
	// +optional
	// +listType=atomic
	AnnotationPrefixes []string `json:"annotationPrefixes,omitempty"`

	// spotalisNamespaces is the list of up to 1000 namespaces in which annotations with the prefix spotalis.io are read.
	// It requires that prefix in annotationPrefixes. If unset, they are read in all namespaces.
	//
	// +optional
	// +listType=set
	SpotalisNamespaces []string `json:"spotalisNamespaces,omitempty"`

	// onePodKinds is a list of at most 64 kinds of owners that have one pod each, such as runners. Their pods are
	// grouped by the set of the owner: each owner on its own would be a group of one pod, which is on-demand unless
	// spotPercent is 100. The list replaces the default; an empty list ([]) groups the pods of each owner separately.
	// Defaults to EphemeralRunner (actions.github.com), TaskRun (tekton.dev), GameServer (agones.dev) and
	// VirtualMachineInstance (kubevirt.io).
	//
	// +optional
	// +listType=atomic
	OnePodKinds []OnePodKind `json:"onePodKinds,omitzero"`

	// spreadSpotOver is a list of 1 to 4 node label keys. Nodes with equal values of all of them form one interruption
	// domain, and spot pods are spread across these domains. A CapacityMix may list its own. Defaults to
	// [topology.kubernetes.io/zone, node.kubernetes.io/instance-type].
	//
	// +optional
	// +listType=atomic
	SpreadSpotOver []string `json:"spreadSpotOver,omitempty"`

	// interruptionsNamespace is the namespace of berth-controller, whose ConfigMap berth-controller-interruptions has the
	// interruption domains that are in quarantine. Defaults to berth-system.
	//
	// +optional
	InterruptionsNamespace string `json:"interruptionsNamespace,omitempty"`

	// nodeSampleSize is the number of nodes of its capacity type that are considered first for a pod, from 16 to 1000,
	// so that scheduling costs the same in a small and a large cluster. The best of them, one eighth but at least 4,
	// are passed to the filters and scores of all plugins. For a pod with its own preferences, the whole sample is
	// passed. If none of them is feasible, all nodes are considered. 0 considers all nodes. Defaults to 32.
	//
	// +optional
	NodeSampleSize *int32 `json:"nodeSampleSize,omitempty"`

	// rankSampleBy specifies which nodes of the sample are passed: LeastAllocated, MostAllocated for profiles whose
	// NodeResourcesFit packs nodes, or Off for all of them. Other replicas of the workload on or near a node reduce its
	// rank in either case. Defaults to LeastAllocated.
	//
	// +optional
	RankSampleBy RankSampleBy `json:"rankSampleBy,omitempty"`

	// syncTimeoutSeconds is the maximum time for the plugin's caches to synchronize at startup, in seconds from 1 to
	// 600. After that the scheduler exits with an error. Defaults to 60.
	//
	// +optional
	SyncTimeoutSeconds *int32 `json:"syncTimeoutSeconds,omitempty"`

	// capacityTypeLabel is the node label that limits pods with the scheduling gate berth.dev/capacity-mix to their
	// capacity type, by a node selector that every scheduler and autoscaler supports. The node rules must match its
	// values. Defaults to the key and first values of the first two nodeRules with operator In that have the same key
	// and different types, otherwise, unless builtinNodeRules is Off, to karpenter.sh/capacity-type with the values
	// spot and on-demand.
	//
	// +optional
	CapacityTypeLabel *CapacityTypeLabel `json:"capacityTypeLabel,omitempty"`
}

// OnePodKind is a kind of owners that have one pod each.
type OnePodKind struct {
	// apiGroup is the API group of the kind, such as actions.github.com: a DNS subdomain.
	//
	// +required
	APIGroup string `json:"apiGroup"`

	// kind is the kind as in the owner references of pods, such as EphemeralRunner: at most 63 letters, digits or '-' that
	// start with a letter. The list has each kind of a group once.
	//
	// +required
	Kind string `json:"kind"`

	// setLabel is the key of the label of the pods that names the set of the owner. If unset, or absent on a pod, all
	// pods of the kind that one mix governs form a group.
	//
	// +optional
	SetLabel string `json:"setLabel,omitempty"`
}

// CapacityTypeLabel is a node label whose value is the capacity type. At most one of the two values may be empty, which
// matches nodes without the label, as on GKE and AKS.
type CapacityTypeLabel struct {
	// key is the key of the label.
	//
	// +required
	Key string `json:"key"`

	// spot is the value of the label on spot nodes.
	//
	// +optional
	Spot string `json:"spot,omitempty"`

	// onDemand is the value of the label on on-demand nodes.
	//
	// +optional
	OnDemand string `json:"onDemand,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// ResourceLimitArgs are the arguments of the ResourceLimit plugin.
type ResourceLimitArgs struct {
	metav1.TypeMeta `json:",inline"`

	// defaultNamespace is the namespace of a ResourceLimit that a pod names and that does not exist in the pod's own
	// namespace. If unset, only the pod's own namespace is used.
	//
	// +optional
	DefaultNamespace string `json:"defaultNamespace,omitempty"`

	// syncTimeoutSeconds is the maximum time for the plugin's caches to synchronize at startup, in seconds from 1 to
	// 600. After that the scheduler exits with an error. Defaults to 60.
	//
	// +optional
	SyncTimeoutSeconds *int32 `json:"syncTimeoutSeconds,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// SchedulingPolicyArgs are the arguments of the SchedulingPolicy plugin.
type SchedulingPolicyArgs struct {
	metav1.TypeMeta `json:",inline"`

	// defaultPolicy are the rules for pods that no SchedulingPolicy governs, in the format of a SchedulingPolicy's spec
	// without podSelector. If unset, the other plugins of the profile score the nodes of such pods.
	//
	// +optional
	DefaultPolicy *v1alpha1.SchedulingRules `json:"defaultPolicy,omitempty"`

	// lockNamespace is the namespace of the Leases by which nodes are locked for policies with bind mode Pessimistic. All
	// schedulers that must not bind to a node at the same time need the same one. Defaults to berth-system.
	//
	// +optional
	LockNamespace string `json:"lockNamespace,omitempty"`

	// syncTimeoutSeconds is the maximum time for the plugin's caches to synchronize at startup, in seconds from 1 to
	// 600. After that the scheduler exits with an error. Defaults to 60.
	//
	// +optional
	SyncTimeoutSeconds *int32 `json:"syncTimeoutSeconds,omitempty"`
}

// NodeRule assigns a capacity type to the nodes with certain labels.
type NodeRule struct {
	// name is the name of the rule in messages, at most 63 characters. Names must be unique. Defaults to the position
	// of the rule in the list.
	//
	// +optional
	Name string `json:"name,omitempty"`

	// key is the key of the node label that the rule evaluates.
	//
	// +required
	Key string `json:"key"`

	// operator specifies what the rule requires of the label: its value is one of values (In), it is present (Exists),
	// or it is absent (Absent).
	//
	// +required
	Operator NodeRuleOperator `json:"operator"`

	// values are the label values of operator In, 1 to 64. They must be empty for Exists and Absent.
	//
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`

	// requires is the key of a label that a node must have for the rule to apply. If unset, none is required. Operator
	// Absent requires it, because most nodes lack most labels: set it to a label that every node of the provider has,
	// or to "*" to apply the rule to every node.
	//
	// +optional
	Requires string `json:"requires,omitempty"`

	// capacityType is the capacity type of a node that the rule matches: spot or on-demand.
	//
	// +required
	CapacityType CapacityType `json:"capacityType"`
}

// MixSpec is a mix. Its fields have the meaning, bounds and defaults of the fields of the same names in a CapacityMix.
type MixSpec struct {
	// spotPercent is the percentage of replicas on spot nodes, from 0 to 100.
	//
	// +required
	SpotPercent *int32 `json:"spotPercent,omitempty"`

	// minOnDemand is the number of replicas that stay on on-demand nodes, from 0 to 1000000. Defaults to 0.
	//
	// +optional
	MinOnDemand *int32 `json:"minOnDemand,omitempty"`

	// maxSpot is the maximum number of replicas on spot nodes, from 0 to 1000000. If unset, the number is not limited.
	//
	// +optional
	MaxSpot *int32 `json:"maxSpot,omitempty"`

	// whenSpotUnavailable specifies what happens to a pod of a spot slot when no spot node has free capacity: OnDemand
	// or Wait. Defaults to OnDemand.
	//
	// +optional
	WhenSpotUnavailable WhenSpotUnavailable `json:"whenSpotUnavailable,omitempty"`

	// spotWaitSeconds is the time for which a pod of a spot slot waits before it may run on an on-demand node, in
	// seconds from 0 to 86400. A value other than 0 is valid only with whenSpotUnavailable OnDemand. Defaults to 900
	// for pods with the scheduling gate berth.dev/capacity-mix, and to 0 for all other pods.
	//
	// +optional
	SpotWaitSeconds *int32 `json:"spotWaitSeconds,omitempty"`

	// whenOnDemandUnavailable specifies what happens to a pod of an on-demand slot when no on-demand node has free
	// capacity: Wait or Spot. Defaults to Wait.
	//
	// +optional
	WhenOnDemandUnavailable WhenOnDemandUnavailable `json:"whenOnDemandUnavailable,omitempty"`
}
