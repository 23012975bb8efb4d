// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WhenSpotUnavailable says what a pod of a spot slot does when no spot node has room for it.
//
// +kubebuilder:validation:Enum=OnDemand;Wait
type WhenSpotUnavailable string

const (
	// WhenSpotUnavailableOnDemand lets the pod borrow room on an on-demand node.
	WhenSpotUnavailableOnDemand WhenSpotUnavailable = "OnDemand"

	// WhenSpotUnavailableWait keeps the pod pending until a spot node has room.
	WhenSpotUnavailableWait WhenSpotUnavailable = "Wait"
)

// WhenOnDemandUnavailable says what a pod of an on-demand slot does when no on-demand node has room for it.
//
// +kubebuilder:validation:Enum=Wait;Spot
type WhenOnDemandUnavailable string

const (
	// WhenOnDemandUnavailableWait keeps the pod pending until an on-demand node has room.
	WhenOnDemandUnavailableWait WhenOnDemandUnavailable = "Wait"

	// WhenOnDemandUnavailableSpot lets the pod borrow room on a spot node, which gives up the floor for that time.
	WhenOnDemandUnavailableSpot WhenOnDemandUnavailable = "Spot"
)

// CapacityMixSpec is the mix that the selected pods are to have. For n replicas of a workload,
// min(floor(n * spotPercent / 100), max(0, n - minOnDemand), maxSpot) run on spot nodes, the rest on on-demand nodes.
//
// Ranges are stated twice. The API server names the value only for the OpenAPI bound, which editors and linters know
// too; the message of the CEL rule is the one made for people.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spotWaitSeconds) || self.spotWaitSeconds == 0 || !has(self.whenSpotUnavailable) || self.whenSpotUnavailable == 'OnDemand'",message="spotWaitSeconds has no effect with whenSpotUnavailable Wait: remove it or use OnDemand",fieldPath=".spotWaitSeconds"
type CapacityMixSpec struct {
	// selector selects the pods in the namespace that this mix governs, as in a PodDisruptionBudget.
	// An empty selector ({}) selects every pod of the namespace. Each direct controller of selected pods, such as
	// one ReplicaSet, has the mix on its own. Where several mixes select a pod, the oldest governs it.
	//
	// +required
	Selector PodSelector `json:"selector"`

	// spotPercent is the share of replicas that run on spot nodes, in percent from 0 to 100, rounded down to whole
	// replicas: the remainder goes to on-demand nodes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 100`,message=`spotPercent must be between 0 and 100`
	// +required
	SpotPercent int32 `json:"spotPercent"`

	// minOnDemand is the number of replicas that run on on-demand nodes before any runs on a spot node,
	// from 0 to 1000000.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 1000000`,message=`minOnDemand must be between 0 and 1000000`
	// +default=0
	// +optional
	MinOnDemand int32 `json:"minOnDemand,omitempty"`

	// maxSpot is the largest number of replicas that run on spot nodes, from 0 to 1000000. Absent means no such bound.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 1000000`,message=`maxSpot must be between 0 and 1000000`
	// +optional
	MaxSpot *int32 `json:"maxSpot,omitempty"`

	// whenSpotUnavailable says what a pod does that belongs on a spot node when none has room:
	// OnDemand lets it run on an on-demand node after spotWaitSeconds, Wait keeps it pending.
	//
	// +default="OnDemand"
	// +optional
	WhenSpotUnavailable WhenSpotUnavailable `json:"whenSpotUnavailable,omitempty"`

	// spotWaitSeconds is how long a pod that belongs on a spot node waits for room there before it may run on an
	// on-demand node, in seconds from 0 to 86400, counted from the moment no spot node had room. It may be other than 0
	// only with whenSpotUnavailable OnDemand. Absent means 0, and 900 for pods with the scheduling gate
	// berth.dev/capacity-mix: longer than an autoscaler takes to launch a node.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 86400`,message=`spotWaitSeconds must be between 0 and 86400`
	// +optional
	SpotWaitSeconds *int32 `json:"spotWaitSeconds,omitempty"`

	// whenOnDemandUnavailable says what a pod does that belongs on an on-demand node when none has room:
	// Wait keeps it pending, Spot lets it run on a spot node, below minOnDemand if need be.
	//
	// +default="Wait"
	// +optional
	WhenOnDemandUnavailable WhenOnDemandUnavailable `json:"whenOnDemandUnavailable,omitempty"`

	// spreadSpotOver lists 1 to 4 node label keys. Nodes with equal values of all of them form one interruption
	// domain, which one reclaim may take as a whole, and the spot pods of a workload are spread over these domains.
	// Absent means the keys in the scheduler's configuration.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253`,message=`spreadSpotOver must hold label keys: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"spreadSpotOver must hold label keys, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +kubebuilder:validation:XValidation:rule="self.all(k, self.exists_one(other, other == k))",message="spreadSpotOver must not hold the same label key twice"
	// +listType=atomic
	// +optional
	SpreadSpotOver []string `json:"spreadSpotOver,omitempty"`

	// tolerations are added to the pods of a capacity type, for providers that taint its nodes: by the scheduler when it
	// opens the gate berth.dev/capacity-mix of a pod, or by the webhook when a pod without the gate is created.
	//
	// +optional
	Tolerations *TolerationsByType `json:"tolerations,omitempty"`

	// rebalance says how replicas that run on the wrong capacity type, after a fallback, a drain or a change of the mix,
	// are moved back. Absent means the controller's defaults. Nothing is moved where no controller runs.
	//
	// +optional
	Rebalance *RebalanceSpec `json:"rebalance,omitempty"`
}

// TolerationsByType are the tolerations that pods of each capacity type get.
type TolerationsByType struct {
	// spot are the tolerations of pods that belong on spot nodes, at most 8.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Spot []Toleration `json:"spot,omitempty"`

	// onDemand are the tolerations of pods that belong on on-demand nodes, at most 8.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	OnDemand []Toleration `json:"onDemand,omitempty"`
}

// Toleration is a toleration as in the spec of a pod.
//
// +kubebuilder:validation:XValidation:rule=`(has(self.key) && size(self.key) > 0) || (has(self.operator) && self.operator == 'Exists')`,message=`key may be empty with operator Exists only`,fieldPath=".key"
// +kubebuilder:validation:XValidation:rule=`!has(self.operator) || self.operator != 'Exists' || !has(self.value) || size(self.value) == 0`,message=`value must be empty with operator Exists`,fieldPath=".value"
// +kubebuilder:validation:XValidation:rule=`!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')`,message=`tolerationSeconds may be set with effect NoExecute only`,fieldPath=".tolerationSeconds"
type Toleration struct {
	// key is the key of the taint. It may be empty with operator Exists only, which tolerates every taint.
	//
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`key must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"key must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	Key string `json:"key,omitempty"`

	// operator is Equal or Exists. Absent means Equal.
	//
	// +kubebuilder:validation:Enum=Equal;Exists
	// +optional
	Operator corev1.TolerationOperator `json:"operator,omitempty"`

	// value is the value of the taint; it must be empty with operator Exists.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`value must be a label value: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"value must be a label value, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	Value string `json:"value,omitempty"`

	// effect is the effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Absent means all of them.
	//
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect corev1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long a taint with effect NoExecute is tolerated, in seconds from 0 to 2147483647. Absent
	// means indefinitely.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// CapacityMixStatus is what the controller last saw of a CapacityMix.
type CapacityMixStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the observations of this mix, one per type: Accepted says whether it governs pods, Satisfied whether
	// all its workloads satisfy their mix, Rebalancing whether replicas are being moved, and why not.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// desired is how the replicas of all governed workloads are to be divided.
	//
	// +optional
	Desired *ReplicaSplit `json:"desired,omitempty"`

	// actual is where they run.
	//
	// +optional
	Actual *ReplicaSplit `json:"actual,omitempty"`

	// workloadCount is how many workloads (each revision for itself) the mix governs.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	WorkloadCount int32 `json:"workloadCount,omitempty"`

	// satisfiedCount is how many of them have exactly their mix.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	SatisfiedCount int32 `json:"satisfiedCount,omitempty"`

	// workloads are the governed workloads, those out of their mix first, at most 50; workloadCount counts all.
	//
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Workloads []WorkloadMix `json:"workloads,omitempty"`
}

const (
	// ConditionAccepted is True when the mix is valid and the pods it selects have no older mix.
	ConditionAccepted = "Accepted"

	// ReasonAccepted is the reason of Accepted=True.
	ReasonAccepted = "Accepted"

	// ReasonConflict is the reason of Accepted=False when an older CapacityMix selects the same pods.
	ReasonConflict = "Conflict"

	// ReasonInvalid is the reason of Accepted=False when the spec cannot be used.
	ReasonInvalid = "Invalid"

	// ConditionSatisfied is True when every governed workload has exactly its mix.
	ConditionSatisfied = "Satisfied"

	// ReasonExact is the reason of Satisfied=True.
	ReasonExact = "Exact"

	// ReasonNoWorkloads is the reason of Satisfied=True when the mix governs no workload.
	ReasonNoWorkloads = "NoWorkloads"

	// ReasonMixNotSatisfied is the reason of Satisfied=False.
	ReasonMixNotSatisfied = "MixNotSatisfied"

	// ConditionSpotAvailable is False while pods with the gate berth.dev/capacity-mix are limited to on-demand nodes in
	// place of spot nodes, which did not come, and True otherwise. It is absent where no pod has the gate.
	ConditionSpotAvailable = "SpotAvailable"

	// ReasonFallback is the reason of SpotAvailable=False.
	ReasonFallback = "Fallback"

	// ReasonNoFallback is the reason of SpotAvailable=True.
	ReasonNoFallback = "NoFallback"

	// ConditionRebalancing is True while a replica is being moved to its capacity type. While it is False and Satisfied
	// is False too, the reason says what keeps replicas from being moved.
	ConditionRebalancing = "Rebalancing"

	// ReasonMoving is the reason of Rebalancing=True when a replica was evicted and its replacement is not Ready yet.
	ReasonMoving = "Moving"

	// ReasonProvisioning is the reason of Rebalancing=True when a placeholder pod holds the room for a replacement, or
	// waits for it, and no replica was evicted yet.
	ReasonProvisioning = "Provisioning"

	// ReasonPodsPending is the reason of Rebalancing=False when no replica has to move and some have no node.
	ReasonPodsPending = "PodsPending"

	// ReasonWaiting is the reason of Rebalancing=False when a workload is not complete: its replicas are being created,
	// replaced or evaluated.
	ReasonWaiting = "Waiting"
)

// CapacityMix says how the replicas of the selected pods' workloads are divided between spot and on-demand nodes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capacitymixes,scope=Namespaced,shortName=mix,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Spot-Percent",type=integer,JSONPath=`.spec.spotPercent`,description="Percent of replicas on spot nodes"
// +kubebuilder:printcolumn:name="Min-On-Demand",type=integer,JSONPath=`.spec.minOnDemand`,description="Replicas that stay on on-demand nodes"
// +kubebuilder:printcolumn:name="Spot",type=integer,JSONPath=`.status.actual.spot`,description="Replicas that run on spot nodes"
// +kubebuilder:printcolumn:name="On-Demand",type=integer,JSONPath=`.status.actual.onDemand`,description="Replicas that run on on-demand nodes"
// +kubebuilder:printcolumn:name="Satisfied",type=string,JSONPath=`.status.conditions[?(@.type=="Satisfied")].status`,description="Whether every workload satisfies its mix"
// +kubebuilder:printcolumn:name="Blocked",type=string,JSONPath=`.status.conditions[?(@.type=="Rebalancing")].reason`,priority=1,description="What the rebalancer does, or waits for"
// +kubebuilder:printcolumn:name="Max-Spot",type=integer,JSONPath=`.spec.maxSpot`,priority=1,description="Largest number of replicas on spot nodes"
// +kubebuilder:printcolumn:name="No-Spot",type=string,JSONPath=`.spec.whenSpotUnavailable`,priority=1,description="What a spot pod does when no spot node has room"
// +kubebuilder:printcolumn:name="No-On-Demand",type=string,JSONPath=`.spec.whenOnDemandUnavailable`,priority=1,description="What an on-demand pod does when no on-demand node has room"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CapacityMix struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the mix that the selected pods are to have.
	//
	// +required
	Spec CapacityMixSpec `json:"spec"`

	// status is what the controller last saw.
	//
	// +optional
	Status CapacityMixStatus `json:"status,omitempty"`
}

// CapacityMixList is a list of CapacityMix objects.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type CapacityMixList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects of the list.
	//
	// +required
	Items []CapacityMix `json:"items"`
}
