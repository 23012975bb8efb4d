// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SchedulingPolicySpec defines how a node is chosen for the selected pods among those that are feasible for them.
type SchedulingPolicySpec struct {
	// podSelector selects the pods of the namespace that the policy governs. An empty selector ({}) selects every pod. If
	// several policies select a pod, the oldest applies.
	//
	// +required
	PodSelector PodSelector `json:"podSelector"`

	SchedulingRules `json:",inline"`
}

// SchedulingRules are the rules of a SchedulingPolicy, and those that a scheduler profile has for pods without one.
type SchedulingRules struct {
	// score specifies how feasible nodes are scored. If unset, the preset Balanced applies.
	//
	// +optional
	Score *ScoreRules `json:"score,omitempty"`

	// select specifies which of the nodes with the highest score is selected.
	//
	// +optional
	Select *SelectRules `json:"select,omitempty"`

	// bind specifies how a pod is bound to the selected node.
	//
	// +optional
	Bind *BindRules `json:"bind,omitempty"`

	// decisions specifies which scheduling attempts the scheduler records.
	//
	// +optional
	Decisions *DecisionRules `json:"decisions,omitempty"`
}

// ScoreRules specify the score of a node: the sum of the values of functions, each from 0 to 100, times their
// coefficients. They replace the scores of all other plugins of the profile.
//
// +kubebuilder:validation:XValidation:rule="has(self.preset) != (has(self.functions) && self.functions.size() > 0)",message="score must have exactly one of preset and functions"
type ScoreRules struct {
	// preset is a named set of functions: Balanced (nodes with much free CPU and memory, used evenly), Spread (nodes and
	// zones with few pods of the same workload), Pack (nodes that are used most), Locality (nodes that the pod's affinity
	// prefers) or Cost (spot nodes, and then nodes that are used most).
	//
	// +optional
	Preset ScorePreset `json:"preset,omitempty"`

	// functions is a list of functions and their weights, at most 6. At least one must have a coefficient above 0.
	//
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.exists(f, !has(f.coefficient) || string(f.coefficient).matches('[eE].{4}') || !isQuantity(string(f.coefficient)) || quantity(string(f.coefficient)).isGreaterThan(quantity('0')))",message="functions must have at least one coefficient above 0"
	// +listType=map
	// +listMapKey=name
	// +optional
	Functions []ScoreFunction `json:"functions,omitempty"`

	// failureDomainKey is the node label whose value identifies a failure domain for the function Spreading, which counts
	// pods by node, by zone and by failure domain. Defaults to node.kubernetes.io/instance-type.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`failureDomainKey must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"failureDomainKey must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	FailureDomainKey string `json:"failureDomainKey,omitempty"`
}

// ScorePreset is a named set of score functions.
//
// +kubebuilder:validation:Enum=Balanced;Spread;Pack;Locality;Cost
type ScorePreset string

const (
	// ScorePresetBalanced prefers nodes with much free CPU and memory, of which both are used evenly.
	ScorePresetBalanced ScorePreset = "Balanced"

	// ScorePresetSpread prefers nodes, zones and failure domains with few pods of the same workload.
	ScorePresetSpread ScorePreset = "Spread"

	// ScorePresetPack prefers nodes that are used most, so that others become empty.
	ScorePresetPack ScorePreset = "Pack"

	// ScorePresetLocality prefers the nodes that the pod's affinity and its ResourceLimit prefer.
	ScorePresetLocality ScorePreset = "Locality"

	// ScorePresetCost prefers spot nodes and, among these, nodes that are used most.
	ScorePresetCost ScorePreset = "Cost"
)

// ScoreFunction is a function and its weight.
//
// +kubebuilder:validation:XValidation:rule="!has(self.weight) || (!has(self.priority) && !has(self.coefficient))",message="weight must not be set together with priority or coefficient",fieldPath=".weight"
type ScoreFunction struct {
	// name is the name of the function: ResourceBalance, Spreading, Binpacking, PreferredAffinity, AntiAffinity or
	// TopologySpread.
	//
	// +required
	Name ScoreFunctionName `json:"name"`

	// weight is a named weight: Default (priority 1, coefficient 1), High (10, 3) or Low (1, 0.5).
	//
	// +optional
	Weight ScoreWeight `json:"weight,omitempty"`

	// priority is the place of the function in records of decisions, from 0 to 100; higher priorities come first. It does
	// not change the score. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// coefficient is the number by which the value of the function is multiplied, from 0 to 1000: 0.5, 3. Defaults to 1.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 && self <= 1000 : !self.matches('[eE].{4}') && isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0 && quantity(self).compareTo(quantity('1k')) <= 0`,message=`coefficient must be a number from 0 to 1000`,messageExpression=`"coefficient must be a number from 0 to 1000, such as 0.5 or 3, not '" + string(self) + "'"`
	// +optional
	Coefficient *resource.Quantity `json:"coefficient,omitempty"`
}

// ScoreFunctionName is the name of a function that values a node from 0 to 100.
//
// +kubebuilder:validation:Enum=ResourceBalance;Spreading;Binpacking;PreferredAffinity;AntiAffinity;TopologySpread
type ScoreFunctionName string

const (
	// ScoreResourceBalance is high where much CPU and memory is free once the pod runs there, and both are used evenly.
	ScoreResourceBalance ScoreFunctionName = "ResourceBalance"

	// ScoreSpreading is high where few pods of the same workload run on the node, in its zone and in its failure domain.
	ScoreSpreading ScoreFunctionName = "Spreading"

	// ScoreBinpacking is high where much CPU and memory is used once the pod runs there, and little is left that cannot be
	// used because the other resource is used up.
	ScoreBinpacking ScoreFunctionName = "Binpacking"

	// ScorePreferredAffinity is high where preferences of the pod's node affinity, of its ResourceLimit and of its pod
	// affinity are met.
	ScorePreferredAffinity ScoreFunctionName = "PreferredAffinity"

	// ScoreAntiAffinity is high where preferences of pod anti-affinity, of the pod and of those that run, are met.
	ScoreAntiAffinity ScoreFunctionName = "AntiAffinity"

	// ScoreTopologySpread is high where the pod's topology spread constraints with ScheduleAnyway are met.
	ScoreTopologySpread ScoreFunctionName = "TopologySpread"
)

// ScoreWeight is a named priority and coefficient.
//
// +kubebuilder:validation:Enum=Default;High;Low
type ScoreWeight string

const (
	// ScoreWeightDefault is priority 1 and coefficient 1.
	ScoreWeightDefault ScoreWeight = "Default"

	// ScoreWeightHigh is priority 10 and coefficient 3.
	ScoreWeightHigh ScoreWeight = "High"

	// ScoreWeightLow is priority 1 and coefficient 0.5.
	ScoreWeightLow ScoreWeight = "Low"
)

// SelectRules specify which of the nodes with the highest score is selected.
//
// +kubebuilder:validation:XValidation:rule="!has(self.seed) || (has(self.tieBreaker) && self.tieBreaker in ['Random', 'WeightedRandom'])",message="seed must only be set with tieBreaker Random or WeightedRandom",fieldPath=".seed"
type SelectRules struct {
	// tieBreaker selects one of the nodes with the highest score: Name (the first by name), Random, LeastLoaded (the one
	// with the most free CPU and memory), RoundRobin (the one after the last selected, by name) or AffinityBased (the one
	// that the pod's affinity prefers most). WeightedRandom selects one of all feasible nodes, with a probability in
	// proportion to its score. Defaults to LeastLoaded.
	//
	// +optional
	TieBreaker TieBreaker `json:"tieBreaker,omitempty"`

	// seed makes Random and WeightedRandom repeatable: the same pods in the same order select the same nodes. If unset,
	// they are not repeatable.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	// +optional
	Seed *int64 `json:"seed,omitempty"`
}

// TieBreaker is a strategy that selects one of several nodes.
//
// +kubebuilder:validation:Enum=Name;Random;LeastLoaded;RoundRobin;WeightedRandom;AffinityBased
type TieBreaker string

const (
	// TieBreakerName selects the first node by name.
	TieBreakerName TieBreaker = "Name"

	// TieBreakerRandom selects any node with the same probability.
	TieBreakerRandom TieBreaker = "Random"

	// TieBreakerLeastLoaded selects the node with the lowest utilization of CPU and memory.
	TieBreakerLeastLoaded TieBreaker = "LeastLoaded"

	// TieBreakerRoundRobin selects the node after the last selected one, in the order of names.
	TieBreakerRoundRobin TieBreaker = "RoundRobin"

	// TieBreakerWeightedRandom selects any feasible node, with a probability in proportion to its score.
	TieBreakerWeightedRandom TieBreaker = "WeightedRandom"

	// TieBreakerAffinityBased selects the node that the pod's affinity prefers most.
	TieBreakerAffinityBased TieBreaker = "AffinityBased"
)

// BindRules specify how a pod is bound to the selected node.
//
// +kubebuilder:validation:XValidation:rule="!has(self.lockTimeoutSeconds) || (has(self.mode) && self.mode == 'Pessimistic')",message="lockTimeoutSeconds must only be set with mode Pessimistic",fieldPath=".lockTimeoutSeconds"
// +kubebuilder:validation:XValidation:rule="has(self.groupSize) == (has(self.mode) && self.mode == 'TwoPhase')",message="groupSize must be set with mode TwoPhase, and only with it",fieldPath=".groupSize"
// +kubebuilder:validation:XValidation:rule="!has(self.groupLabelKey) || (has(self.mode) && self.mode == 'TwoPhase')",message="groupLabelKey must only be set with mode TwoPhase",fieldPath=".groupLabelKey"
type BindRules struct {
	// mode is Optimistic (bind at once, as kube-scheduler does: another scheduler can bind to the same node at the same time,
	// and the kubelet rejects a pod that has no capacity), Pessimistic (lock the node, read its pods from the API server,
	// bind only if the pod still fits, and unlock it) or TwoPhase (bind the pods of a group only when a node is reserved for
	// each of them). Defaults to Optimistic.
	//
	// +optional
	Mode BindMode `json:"mode,omitempty"`

	// lockTimeoutSeconds is the maximum time for which a pod waits for the lock of its node, from 1 to 60. After that it is
	// scheduled again. Defaults to 10.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	// +optional
	LockTimeoutSeconds *int32 `json:"lockTimeoutSeconds,omitempty"`

	// reservationSeconds is the maximum time from the selection of a node to the binding, from 1 to 900. A pod that is not
	// bound by then gives the node back and is scheduled again. Defaults to 60 with mode TwoPhase. With the other modes there
	// is no maximum if it is unset.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=900
	// +optional
	ReservationSeconds *int32 `json:"reservationSeconds,omitempty"`

	// groupSize is the number of pods of a group, from 2 to 100. With mode TwoPhase none of them is bound before a node is
	// reserved for so many.
	//
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +optional
	GroupSize *int32 `json:"groupSize,omitempty"`

	// groupLabelKey is the key of the label whose value identifies the group of a pod, among the pods that the policy
	// governs. If unset, a group is the pods of one controller, such as a Job.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`groupLabelKey must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"groupLabelKey must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	GroupLabelKey string `json:"groupLabelKey,omitempty"`
}

// BindMode specifies how a scheduler prevents that two schedulers use the same capacity, or that a group is bound in part.
//
// +kubebuilder:validation:Enum=Optimistic;Pessimistic;TwoPhase
type BindMode string

const (
	// BindOptimistic binds without a lock.
	BindOptimistic BindMode = "Optimistic"

	// BindPessimistic binds while it holds the lock of the node.
	BindPessimistic BindMode = "Pessimistic"

	// BindTwoPhase binds the pods of a group when a node is reserved for each of them.
	BindTwoPhase BindMode = "TwoPhase"
)

// DecisionRules specify which scheduling attempts the scheduler records, and where.
type DecisionRules struct {
	// record specifies which attempts are recorded: Never, OnFailure or Always. Defaults to OnFailure.
	//
	// +optional
	Record RecordMode `json:"record,omitempty"`

	// candidates is the number of nodes whose scores are recorded, from 1 to 50, the best first. Defaults to 5.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	Candidates *int32 `json:"candidates,omitempty"`

	// ttlSeconds is the time for which a record is kept, from 60 to 86400. The scheduler drops older records earlier if it
	// has too many. Defaults to 3600.
	//
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	// +optional
	TTLSeconds *int32 `json:"ttlSeconds,omitempty"`

	// events specifies whether the scheduler records an event BindSuccess or BindFailure, with the id of the decision, once
	// for each attempt that selected a node. Defaults to false.
	//
	// +optional
	Events bool `json:"events,omitempty"`

	// objects specifies whether the scheduler also writes the last recorded attempt of each pod as a SchedulingDecision with the
	// name of the pod. It keeps those of the 100 pods of a namespace that were recorded last. Defaults to false.
	//
	// +optional
	Objects bool `json:"objects,omitempty"`
}

// RecordMode specifies which scheduling attempts are recorded.
//
// +kubebuilder:validation:Enum=Never;OnFailure;Always
type RecordMode string

const (
	// RecordNever records no attempt.
	RecordNever RecordMode = "Never"

	// RecordOnFailure records attempts that bound no pod.
	RecordOnFailure RecordMode = "OnFailure"

	// RecordAlways records every attempt.
	RecordAlways RecordMode = "Always"
)

// SchedulingPolicyStatus is the observed state of a SchedulingPolicy.
type SchedulingPolicyStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the policy. Accepted is true if the policy is valid, is among the 100 oldest
	// of its namespace, and no older policy governs pods that it selects.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// podCount is the number of pods that the policy governs, without finished ones.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	PodCount int32 `json:"podCount,omitempty"`
}

// ReasonTooMany is the reason of Accepted=False if the object governs no pod because its namespace has too many older ones of
// its kind.
const ReasonTooMany = "TooMany"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SchedulingPolicy specifies how berth-scheduler scores the feasible nodes of selected pods, which of the best it selects,
// and what it records about its decisions.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=schedulingpolicies,scope=Namespaced,shortName=spol,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Preset",type=string,JSONPath=`.spec.score.preset`,description="Named set of score functions"
// +kubebuilder:printcolumn:name="Tie-Breaker",type=string,JSONPath=`.spec.select.tieBreaker`,description="How one of the nodes with the highest score is selected"
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.podCount`,description="Pods that the policy governs"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether the policy governs all pods that it selects"
// +kubebuilder:printcolumn:name="Record",type=string,JSONPath=`.spec.decisions.record`,priority=1,description="Which scheduling attempts are recorded"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SchedulingPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the pods and their rules.
	//
	// +required
	Spec SchedulingPolicySpec `json:"spec"`

	// status is the most recently observed status of the policy.
	//
	// +optional
	Status SchedulingPolicyStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SchedulingPolicyList is a list of SchedulingPolicy objects.
//
// +kubebuilder:object:root=true
type SchedulingPolicyList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of SchedulingPolicy objects.
	//
	// +required
	Items []SchedulingPolicy `json:"items"`
}
