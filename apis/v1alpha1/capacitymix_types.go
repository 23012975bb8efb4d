// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WhenSpotUnavailable specifies what happens to a pod of a spot slot when no spot node has free capacity for it.
//
// +kubebuilder:validation:Enum=OnDemand;Wait
type WhenSpotUnavailable string

const (
	// WhenSpotUnavailableOnDemand allows the pod to run on an on-demand node.
	WhenSpotUnavailableOnDemand WhenSpotUnavailable = "OnDemand"

	// WhenSpotUnavailableWait keeps the pod pending until a spot node has free capacity.
	WhenSpotUnavailableWait WhenSpotUnavailable = "Wait"
)

// WhenOnDemandUnavailable specifies what happens to a pod of an on-demand slot when no on-demand node has free capacity
// for it.
//
// +kubebuilder:validation:Enum=Wait;Spot
type WhenOnDemandUnavailable string

const (
	// WhenOnDemandUnavailableWait keeps the pod pending until an on-demand node has free capacity.
	WhenOnDemandUnavailableWait WhenOnDemandUnavailable = "Wait"

	// WhenOnDemandUnavailableSpot allows the pod to run on a spot node. While it runs there, minOnDemand is not met.
	WhenOnDemandUnavailableSpot WhenOnDemandUnavailable = "Spot"
)

// CapacityMixSpec defines how the replicas of the selected pods' workloads are divided between capacity types. Of n
// replicas of a workload, min(floor(n * spotPercent / 100), max(0, n - minOnDemand), maxSpot) run on spot nodes, the
// rest on on-demand nodes.
//
// Ranges are declared twice. For the OpenAPI bound, the API server includes the value in the error, and editors and
// linters support it. The CEL rule has the readable message.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spotWaitSeconds) || self.spotWaitSeconds == 0 || !has(self.whenSpotUnavailable) || self.whenSpotUnavailable == 'OnDemand'",message="spotWaitSeconds has no effect with whenSpotUnavailable Wait: remove it or use OnDemand",fieldPath=".spotWaitSeconds"
type CapacityMixSpec struct {
	// selector selects the pods in the namespace that this mix governs, as in a PodDisruptionBudget. An empty selector
	// ({}) selects every pod of the namespace. The mix applies to each group of selected pods, such as those of one
	// ReplicaSet, separately. If several mixes select a pod, the oldest governs it.
	//
	// +required
	Selector PodSelector `json:"selector"`

	// group specifies which of the selected pods form one group, whose replicas are divided between capacity types
	// together: Controller for the pods of each direct controller, Selector for all pods that this mix governs, Top for
	// the pods below each highest owner, such as all revisions of one Deployment or of one Argo Rollout. If unset, it is
	// Controller, but sets that Berth recognizes by the labels of their pods (LeaderWorkerSet, JobSet) and owners with
	// one pod each, of the kinds in onePodKinds of the scheduler's configuration (such as runners), are one group for
	// each set.
	//
	// +optional
	Group PodGrouping `json:"group,omitempty"`

	// unit specifies which pods of a group hold one place in the mix together, and so run on one capacity type. The
	// percentage and the bounds then count units. If unset, each pod is a unit, except for the groups of a
	// LeaderWorkerSet and the jobs of a JobSet.
	//
	// +optional
	Unit *PodUnit `json:"unit,omitempty"`

	// roles is a list of at most 8 rules for some of the selected pods, such as the driver of an application: they have
	// a fixed capacity type, form groups of their own and are not counted with the others. The first role that selects a
	// pod applies.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Roles []MixRole `json:"roles,omitempty"`

	// spotPercent is the percentage of replicas that run on spot nodes, from 0 to 100, rounded down to whole replicas.
	// The remaining replicas run on on-demand nodes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 100`,message=`spotPercent must be between 0 and 100`
	// +required
	SpotPercent int32 `json:"spotPercent"`

	// minOnDemand is the number of replicas that run on on-demand nodes before any replica runs on a spot node, from 0
	// to 1000000. Defaults to 0.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 1000000`,message=`minOnDemand must be between 0 and 1000000`
	// +default=0
	// +optional
	MinOnDemand int32 `json:"minOnDemand,omitempty"`

	// maxSpot is the maximum number of replicas that run on spot nodes, from 0 to 1000000. If unset, the number is not
	// limited.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 1000000`,message=`maxSpot must be between 0 and 1000000`
	// +optional
	MaxSpot *int32 `json:"maxSpot,omitempty"`

	// whenSpotUnavailable specifies what happens to a pod of a spot slot when no spot node has free capacity: OnDemand
	// allows it to run on an on-demand node after spotWaitSeconds, Wait keeps it pending. Defaults to OnDemand.
	//
	// +default="OnDemand"
	// +optional
	WhenSpotUnavailable WhenSpotUnavailable `json:"whenSpotUnavailable,omitempty"`

	// spotWaitSeconds is the time for which a pod of a spot slot waits for free capacity on a spot node before it may
	// run on an on-demand node, in seconds from 0 to 86400. It starts when no spot node has free capacity. A value
	// other than 0 is valid only with whenSpotUnavailable OnDemand. Defaults to 900 for pods with the scheduling gate
	// berth.dev/capacity-mix, which is longer than an autoscaler takes to launch a node, and to 0 for all other pods.
	// With the gate, the wait ends earlier if an autoscaler reports that it launches no node for the pod.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 86400`,message=`spotWaitSeconds must be between 0 and 86400`
	// +optional
	SpotWaitSeconds *int32 `json:"spotWaitSeconds,omitempty"`

	// whenOnDemandUnavailable specifies what happens to a pod of an on-demand slot when no on-demand node has free
	// capacity: Wait keeps it pending, Spot allows it to run on a spot node, even if fewer than minOnDemand replicas
	// then run on on-demand nodes. Defaults to Wait.
	//
	// +default="Wait"
	// +optional
	WhenOnDemandUnavailable WhenOnDemandUnavailable `json:"whenOnDemandUnavailable,omitempty"`

	// spreadSpotOver is a list of 1 to 4 node label keys. Nodes with equal values of all of them form one interruption
	// domain, which a provider can reclaim as a whole. The spot pods of a workload are spread across these domains. If
	// unset, the keys in the scheduler's configuration are used.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253`,message=`spreadSpotOver must hold label keys: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"spreadSpotOver must hold label keys, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +kubebuilder:validation:XValidation:rule="self.all(k, self.exists_one(other, other == k))",message="spreadSpotOver must not hold the same label key twice"
	// +listType=atomic
	// +optional
	SpreadSpotOver []string `json:"spreadSpotOver,omitempty"`

	// whenDomainInterrupted specifies what happens to a pod of a spot slot while an interruption domain is in quarantine,
	// because its provider has reclaimed spot nodes there: ScheduleAnyway prefers spot nodes of other domains,
	// DoNotSchedule does not place the pod on a spot node of the domain. The domains are those of the scheduler's
	// configuration. If no other domain has a spot node that the pod could use, the domain is used as with
	// ScheduleAnyway. Defaults to ScheduleAnyway.
	//
	// +default="ScheduleAnyway"
	// +optional
	WhenDomainInterrupted WhenDomainInterrupted `json:"whenDomainInterrupted,omitempty"`

	// maxPerDomain is a list of at most 4 limits, each with another topologyKey: of the replicas of a group, at most a
	// number or a share may run on the nodes with one value of a label, such as one zone. All limits apply. A unit of
	// pods counts as one replica. Pods that terminate do not count.
	//
	// +kubebuilder:validation:MaxItems=4
	// +listType=map
	// +listMapKey=topologyKey
	// +optional
	MaxPerDomain []DomainLimit `json:"maxPerDomain,omitempty"`

	// deletionCost specifies who decides the annotation controller.kubernetes.io/pod-deletion-cost of the governed pods, by
	// which a ReplicaSet selects the pods that a scale-down removes. Enforce writes the cost of the slot, so that a
	// scale-down keeps the mix, and restores it when another client overwrites it, but leaves one that a pod was created
	// with or that was set with kubectl. Respect writes none: a scale-down then follows the costs of others, can leave the
	// mix, and is repaired by rebalancing. Defaults to Enforce.
	//
	// +default="Enforce"
	// +optional
	DeletionCost DeletionCosts `json:"deletionCost,omitempty"`

	// protectFloor keeps evictions from leaving fewer than minOnDemand replicas of a workload Ready on on-demand nodes: their
	// label berth.dev/floor is selected by a PodDisruptionBudget of Berth. Where another one selects replicas, Berth has none,
	// because the Eviction API refuses pods that two select; FloorProtected is then false. Defaults to false.
	//
	// +optional
	ProtectFloor bool `json:"protectFloor,omitempty"`

	// tolerations are added to the pods of a capacity type, for providers that taint its nodes. The scheduler adds them
	// when it removes the scheduling gate berth.dev/capacity-mix from a pod, the webhook when a pod without the gate is
	// created.
	//
	// +optional
	Tolerations *TolerationsByType `json:"tolerations,omitempty"`

	// rebalance specifies how replicas that run on the wrong capacity type, after a fallback, a drain or a change of
	// the mix, are moved to the right one. If unset, the defaults of the controller apply. Replicas are moved only
	// while a controller runs.
	//
	// +optional
	Rebalance *RebalanceSpec `json:"rebalance,omitempty"`
}

// TolerationsByType defines the tolerations that are added to the pods of each capacity type.
type TolerationsByType struct {
	// spot is the list of tolerations of pods of spot slots, at most 8.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Spot []Toleration `json:"spot,omitempty"`

	// onDemand is the list of tolerations of pods of on-demand slots, at most 8.
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
// +kubebuilder:validation:XValidation:rule=`!has(self.operator) || !(self.operator in ['Gt', 'Lt']) || (has(self.value) && self.value.matches('^(0|[1-9][0-9]{0,17})$'))`,message=`value must be a whole number of at most 18 digits with operator Gt or Lt`,fieldPath=".value"
// +kubebuilder:validation:XValidation:rule=`!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')`,message=`tolerationSeconds may be set with effect NoExecute only`,fieldPath=".tolerationSeconds"
type Toleration struct {
	// key is the taint key that the toleration applies to. It may be empty only if operator is Exists, which tolerates
	// every taint.
	//
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`key must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"key must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	Key string `json:"key,omitempty"`

	// operator is the relation of the key to the value: Equal, Exists, Gt or Lt. Gt tolerates a taint whose value is a
	// greater number, Lt one whose value is a lower number; both require the feature gate
	// TaintTolerationComparisonOperators of Kubernetes. Defaults to Equal.
	//
	// +kubebuilder:validation:Enum=Equal;Exists;Gt;Lt
	// +optional
	Operator corev1.TolerationOperator `json:"operator,omitempty"`

	// value is the taint value that the toleration matches. It must be empty if operator is Exists, and a whole number if
	// operator is Gt or Lt.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`value must be a label value: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"value must be a label value, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	Value string `json:"value,omitempty"`

	// effect is the taint effect to match: NoSchedule, PreferNoSchedule or NoExecute. If unset, all effects match.
	//
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect corev1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is the time for which a taint with effect NoExecute is tolerated, in seconds from 0 to
	// 2147483647. If unset, it is tolerated indefinitely.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// CapacityMixStatus is the most recently observed status of a CapacityMix.
type CapacityMixStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the mix. Accepted is true if the mix governs pods, Satisfied if all its
	// workloads satisfy it, Rebalancing while replicas are being moved; otherwise its reason is what prevents moves.
	// SpotAvailable is false while gated pods are limited to on-demand nodes because no spot node came. GroupsOfOne is
	// true if several groups have one replica each and so no spot replica, Pinned if pods name a capacity type themselves,
	// FloorProtected while evictions cannot go below minOnDemand.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// desired is the number of replicas of all governed workloads that the mix assigns to each capacity type.
	//
	// +optional
	Desired *ReplicaSplit `json:"desired,omitempty"`

	// actual is the number of replicas of all governed workloads that run on each capacity type.
	//
	// +optional
	Actual *ReplicaSplit `json:"actual,omitempty"`

	// workloadCount is the number of workloads that the mix governs. Each revision counts as one.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	WorkloadCount int32 `json:"workloadCount,omitempty"`

	// satisfiedCount is the number of governed workloads that satisfy the mix exactly.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	SatisfiedCount int32 `json:"satisfiedCount,omitempty"`

	// workloads is the list of governed workloads, at most 50. Those that do not satisfy the mix come first.
	// workloadCount counts all.
	//
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Workloads []WorkloadMix `json:"workloads,omitempty"`
}

const (
	// ConditionAccepted is True if the object is valid and no older object of its kind applies to pods that it selects.
	ConditionAccepted = "Accepted"

	// ReasonAccepted is the reason of Accepted=True.
	ReasonAccepted = "Accepted"

	// ReasonConflict is the reason of Accepted=False if an older object of the kind applies to pods that the object selects.
	ReasonConflict = "Conflict"

	// ReasonInvalid is the reason of Accepted=False if the spec is invalid.
	ReasonInvalid = "Invalid"

	// ConditionSatisfied is True if every governed workload satisfies the mix exactly.
	ConditionSatisfied = "Satisfied"

	// ReasonExact is the reason of Satisfied=True.
	ReasonExact = "Exact"

	// ReasonNoWorkloads is the reason of Satisfied=True if the mix governs no workload.
	ReasonNoWorkloads = "NoWorkloads"

	// ReasonMixNotSatisfied is the reason of Satisfied=False.
	ReasonMixNotSatisfied = "MixNotSatisfied"

	// ConditionSpotAvailable is False while pods with the scheduling gate berth.dev/capacity-mix are limited to
	// on-demand nodes because no spot node came, and True otherwise. It is absent if no pod has the gate.
	ConditionSpotAvailable = "SpotAvailable"

	// ReasonFallback is the reason of SpotAvailable=False.
	ReasonFallback = "Fallback"

	// ReasonNoFallback is the reason of SpotAvailable=True.
	ReasonNoFallback = "NoFallback"

	// ConditionGatesConfigured is False while an autoscaler launches nodes and pods of a governed workload are created
	// without the scheduling gate berth.dev/capacity-mix, so that the autoscaler cannot evaluate the mix. It is absent if
	// no autoscaler was found.
	ConditionGatesConfigured = "GatesConfigured"

	// ReasonPodsWithoutGate is the reason of GatesConfigured=False.
	ReasonPodsWithoutGate = "PodsWithoutGate"

	// ReasonPodsGated is the reason of GatesConfigured=True.
	ReasonPodsGated = "PodsGated"

	// ConditionTopologySpreadHeld is False while pods of a governed workload have both the scheduling gate
	// berth.dev/capacity-mix and a hard topology spread constraint that counts only the nodes which a pod selects: it holds
	// for each capacity type on its own, and not for the whole workload. It is absent otherwise.
	ConditionTopologySpreadHeld = "TopologySpreadHeld"

	// ReasonSpreadByCapacityType is the reason of TopologySpreadHeld=False.
	ReasonSpreadByCapacityType = "SpreadByCapacityType"

	// ConditionGroupsOfOne is True while at least two groups of the mix have one replica each, of one controller of the same
	// kind, and spotPercent gives a single replica no spot slot: the mix then has no effect on them. It is absent
	// otherwise, and with spec.group Selector or Top.
	ConditionGroupsOfOne = "GroupsOfOne"

	// ReasonAlwaysOnDemand is the reason of GroupsOfOne=True.
	ReasonAlwaysOnDemand = "AlwaysOnDemand"

	// ConditionPinned is True while governed pods name a capacity type themselves, in their nodeSelector or required node
	// affinity: they are counted, and the mix decides the capacity type of the other pods only. It is absent otherwise.
	ConditionPinned = "Pinned"

	// ReasonPinnedByKueue is the reason of Pinned=True if Kueue manages all of these pods: the flavor of their quota
	// writes the nodeSelector when Kueue admits them.
	ReasonPinnedByKueue = "PinnedByKueue"

	// ReasonPinnedByPods is the reason of Pinned=True otherwise.
	ReasonPinnedByPods = "PinnedByPods"

	// ConditionRebalancing is True while a replica is being moved to its capacity type. While both it and Satisfied are
	// False, the reason is what prevents moves.
	ConditionRebalancing = "Rebalancing"

	// ReasonMoving is the reason of Rebalancing=True if a replica was evicted and its replacement is not Ready yet.
	ReasonMoving = "Moving"

	// ReasonProvisioning is the reason of Rebalancing=True if a placeholder pod reserves the capacity for a
	// replacement, or is pending, and no replica was evicted yet.
	ReasonProvisioning = "Provisioning"

	// ReasonPodsPending is the reason of Rebalancing=False if no replica has to move and some are not scheduled.
	ReasonPodsPending = "PodsPending"

	// ReasonWaiting is the reason of Rebalancing=False if a workload is not complete: its replicas are being created,
	// replaced or evaluated.
	ReasonWaiting = "Waiting"
)

// CapacityMix defines how the replicas of the selected pods' workloads are divided between spot and on-demand nodes.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=capacitymixes,scope=Namespaced,shortName=mix,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Spot-Percent",type=integer,JSONPath=`.spec.spotPercent`,description="Percentage of replicas on spot nodes"
// +kubebuilder:printcolumn:name="Min-On-Demand",type=integer,JSONPath=`.spec.minOnDemand`,description="Replicas that stay on on-demand nodes"
// +kubebuilder:printcolumn:name="Spot",type=integer,JSONPath=`.status.actual.spot`,description="Replicas that run on spot nodes"
// +kubebuilder:printcolumn:name="On-Demand",type=integer,JSONPath=`.status.actual.onDemand`,description="Replicas that run on on-demand nodes"
// +kubebuilder:printcolumn:name="Satisfied",type=string,JSONPath=`.status.conditions[?(@.type=="Satisfied")].status`,description="Whether every workload satisfies the mix"
// +kubebuilder:printcolumn:name="Blocked",type=string,JSONPath=`.status.conditions[?(@.type=="Rebalancing")].reason`,priority=1,description="Why no replica is moved, or what the rebalancer does"
// +kubebuilder:printcolumn:name="Max-Spot",type=integer,JSONPath=`.spec.maxSpot`,priority=1,description="Maximum number of replicas on spot nodes"
// +kubebuilder:printcolumn:name="No-Spot",type=string,JSONPath=`.spec.whenSpotUnavailable`,priority=1,description="What happens to a pod of a spot slot when no spot node has free capacity"
// +kubebuilder:printcolumn:name="No-On-Demand",type=string,JSONPath=`.spec.whenOnDemandUnavailable`,priority=1,description="What happens to a pod of an on-demand slot when no on-demand node has free capacity"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CapacityMix struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired mix of the selected pods.
	//
	// +required
	Spec CapacityMixSpec `json:"spec"`

	// status is the most recently observed status of the mix.
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

	// items is the list of CapacityMix objects.
	//
	// +required
	Items []CapacityMix `json:"items"`
}
