// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SchedulingAttempt is what the scheduler decided in one attempt to schedule a pod.
type SchedulingAttempt struct {
	// id identifies the attempt in events and in kubectl berth explain --scores.
	//
	// +kubebuilder:validation:MaxLength=317
	// +required
	ID string `json:"id"`

	// time is when the attempt began.
	//
	// +required
	Time metav1.MicroTime `json:"time"`

	// outcome is what became of the attempt: Bound, Unschedulable (no node was feasible) or BindFailed (the pod was not bound
	// to the selected node).
	//
	// +required
	Outcome AttemptOutcome `json:"outcome"`

	// message is the reason of an outcome other than Bound.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`

	// schedulerName is the profile of the scheduler.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// policyName is the name of the SchedulingPolicy that governed the pod.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	PolicyName string `json:"policyName,omitempty"`

	// nodeName is the name of the selected node.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// reservationName is the name of the Reservation whose capacity the pod was to use.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	ReservationName string `json:"reservationName,omitempty"`

	// feasibleCount is the number of nodes that passed all filters, of those that were tried.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	FeasibleCount int32 `json:"feasibleCount,omitempty"`

	// tieBreaker is the strategy that selected the node.
	//
	// +optional
	TieBreaker TieBreaker `json:"tieBreaker,omitempty"`

	// tiedCount is the number of nodes with the highest score.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	TiedCount int32 `json:"tiedCount,omitempty"`

	// functions is the list of score functions, by priority.
	//
	// +kubebuilder:validation:MaxItems=6
	// +listType=atomic
	// +optional
	Functions []AttemptFunction `json:"functions,omitempty"`

	// candidates is the list of the best nodes, the selected one first.
	//
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Candidates []AttemptCandidate `json:"candidates,omitempty"`

	// rejections is the list of the reasons for which nodes were rejected, the most frequent first.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Rejections []AttemptRejection `json:"rejections,omitempty"`
}

// AttemptOutcome is what became of an attempt to schedule a pod.
//
// +kubebuilder:validation:Enum=Bound;Unschedulable;BindFailed
type AttemptOutcome string

const (
	// AttemptBound means that the pod was bound to the node.
	AttemptBound AttemptOutcome = "Bound"

	// AttemptUnschedulable means that no node was feasible.
	AttemptUnschedulable AttemptOutcome = "Unschedulable"

	// AttemptBindFailed means that the pod was not bound to the selected node.
	AttemptBindFailed AttemptOutcome = "BindFailed"
)

// AttemptFunction is a score function and its weight.
type AttemptFunction struct {
	// name is the name of the score function.
	//
	// +kubebuilder:validation:MaxLength=317
	// +required
	Name string `json:"name"`

	// priority orders the functions.
	//
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// coefficient is the decimal number by which values are multiplied.
	//
	// +kubebuilder:validation:MaxLength=32
	// +required
	Coefficient string `json:"coefficient"`
}

// AttemptCandidate is a feasible node.
type AttemptCandidate struct {
	// nodeName is the name of the node.
	//
	// +kubebuilder:validation:MaxLength=317
	// +required
	NodeName string `json:"nodeName"`

	// score is the sum of values times the coefficients of the functions, a decimal number.
	//
	// +kubebuilder:validation:MaxLength=32
	// +required
	Score string `json:"score"`

	// values is the list of the values of the functions, in their order: decimal numbers from 0 to 100.
	//
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:items:MaxLength=32
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`

	// demoted is why the node ranks below all others that are not demoted, whatever its score.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Demoted string `json:"demoted,omitempty"`
}

// AttemptRejection is a reason for which nodes were rejected.
type AttemptRejection struct {
	// reason is the class of the rejection, such as InsufficientCpu.
	//
	// +kubebuilder:validation:MaxLength=317
	// +required
	Reason string `json:"reason"`

	// nodeCount is the number of nodes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	NodeCount int32 `json:"nodeCount"`

	// exampleNodeName is the name of one of the nodes.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	ExampleNodeName string `json:"exampleNodeName,omitempty"`

	// message is the message of the filter about that node.
	//
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`

	// taintKey is the key of the taint, if the reason is TaintWithoutToleration.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	TaintKey string `json:"taintKey,omitempty"`

	// requested is what the pod requests of a resource that is insufficient.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Requested string `json:"requested,omitempty"`

	// available is the most that one of the nodes has of that resource.
	//
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Available string `json:"available,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SchedulingDecision is the record of the last attempt to schedule the pod of the same name. berth-scheduler writes it for the
// pods of SchedulingPolicies with decisions.objects, and deletes it after decisions.ttlSeconds. It is deleted with the pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=schedulingdecisions,scope=Namespaced,shortName=sdec,categories=berth
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.attempt.outcome`,description="What became of the attempt"
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.attempt.nodeName`,description="Selected node"
// +kubebuilder:printcolumn:name="Score",type=string,JSONPath=`.attempt.candidates[0].score`,description="Score of the selected node"
// +kubebuilder:printcolumn:name="Feasible",type=integer,JSONPath=`.attempt.feasibleCount`,description="Nodes that passed all filters"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.attempt.policyName`,description="SchedulingPolicy that governed the pod"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.attempt.message`,priority=1,description="Reason of an outcome other than Bound"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.attempt.time`,description="Time since the attempt began"
type SchedulingDecision struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// attempt is the last recorded attempt.
	//
	// +required
	Attempt SchedulingAttempt `json:"attempt"`

	// expirationTime is when the scheduler deletes the object.
	//
	// +optional
	ExpirationTime *metav1.Time `json:"expirationTime,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SchedulingDecisionList is a list of SchedulingDecision objects.
//
// +kubebuilder:object:root=true
type SchedulingDecisionList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of SchedulingDecision objects.
	//
	// +required
	Items []SchedulingDecision `json:"items"`
}
