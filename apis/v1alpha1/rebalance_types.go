// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RebalanceMode says what the controller does about replicas that run on the wrong capacity type.
//
// +kubebuilder:validation:Enum=Evict;Report;Off
type RebalanceMode string

const (
	// RebalanceModeEvict evicts them, gently: one after the other, only where room for the replacement is proven.
	RebalanceModeEvict RebalanceMode = "Evict"

	// RebalanceModeReport decides in the same way and says what would be moved, but evicts nothing.
	RebalanceModeReport RebalanceMode = "Report"

	// RebalanceModeOff leaves them where they are and only counts them.
	RebalanceModeOff RebalanceMode = "Off"
)

// Provisioning says where the room for the replacement of a replica that is to move comes from.
//
// +kubebuilder:validation:Enum=Wait;Placeholder
type Provisioning string

const (
	// ProvisioningWait moves a replica only when a node that is there has room for its replacement.
	ProvisioningWait Provisioning = "Wait"

	// ProvisioningPlaceholder asks an autoscaler for the room first: a placeholder pod of low priority takes it, and the
	// replica is moved once the placeholder runs.
	ProvisioningPlaceholder Provisioning = "Placeholder"
)

// RebalanceSpec says how replicas that run on the wrong capacity type are moved back. Absent fields are taken from
// the controller's configuration.
type RebalanceSpec struct {
	// mode is Evict, Report or Off. Absent means the controller's default, which ships as Evict.
	//
	// +optional
	Mode RebalanceMode `json:"mode,omitempty"`

	// maxConcurrent is how many replicas of this mix may be being moved at the same time, from 1 to 100. A replica is on
	// the move from its eviction until its replacement is Ready. Absent means the controller's default, which ships as 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 100`,message=`maxConcurrent must be between 1 and 100`
	// +optional
	MaxConcurrent *int32 `json:"maxConcurrent,omitempty"`

	// stabilizationSeconds is how long a workload must have been out of its mix before a replica is moved, in seconds
	// from 0 to 86400. Absent means the controller's default, which ships as 60.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 86400`,message=`stabilizationSeconds must be between 0 and 86400`
	// +optional
	StabilizationSeconds *int32 `json:"stabilizationSeconds,omitempty"`

	// provisioning is Wait or Placeholder: whether a replica moves only to nodes that are there, or room is requested of an
	// autoscaler before, by a placeholder pod. Absent means the controller's default, which ships as Wait.
	//
	// +optional
	Provisioning Provisioning `json:"provisioning,omitempty"`

	// windows are the times in which replicas may be moved. A move that began in a window is finished after it.
	// Absent means at any time.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Windows []RebalanceWindow `json:"windows,omitempty"`
}

// RebalanceWindow is a time, again and again, in which replicas may be moved.
type RebalanceWindow struct {
	// schedule says when the window opens: five fields as in cron, minute hour day-of-month month day-of-week.
	//
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[^ ]+( [^ ]+){4}$')`,message=`schedule must have five fields separated by single spaces, as in cron: minute hour day-of-month month day-of-week`,messageExpression=`"schedule must have five fields separated by single spaces, as in cron, not '" + self + "': minute hour day-of-month month day-of-week"`
	// +required
	Schedule string `json:"schedule"`

	// durationSeconds is how long the window stays open, in seconds from 60 to 604800 (seven days).
	//
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:validation:XValidation:rule=`self >= 60 && self <= 604800`,message=`durationSeconds must be between 60 and 604800`
	// +required
	DurationSeconds int32 `json:"durationSeconds"`

	// timeZone is the IANA name of the zone that schedule is read in, such as Europe/Berlin. Absent means UTC.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// ReplicaSplit is a number of replicas per capacity type.
type ReplicaSplit struct {
	// spot is the number of replicas on spot nodes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Spot int32 `json:"spot"`

	// onDemand is the number of replicas on on-demand nodes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	OnDemand int32 `json:"onDemand"`

	// unknown is the number of replicas on nodes whose capacity type is not known. It satisfies neither side.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
}

// WorkloadMix is how one revision of a workload satisfies its mix.
type WorkloadMix struct {
	// kind is the kind of the workload: Deployment, StatefulSet, Job, or the kind of another controller. Pod means the
	// pods without a controller that the mix selects, together.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name is the workload's name.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// revision is the name of the ReplicaSet that makes this revision of a Deployment. Each revision has the mix on its own.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Revision string `json:"revision,omitempty"`

	// replicas is the number of replicas that this revision is requested to have.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Replicas int32 `json:"replicas"`

	// desired is how these replicas are to be divided.
	//
	// +required
	Desired ReplicaSplit `json:"desired"`

	// actual is where the replicas run that have a node and are not going away.
	//
	// +required
	Actual ReplicaSplit `json:"actual"`

	// borrowed is the number of replicas that run on the other type than their slot's.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Borrowed int32 `json:"borrowed,omitempty"`

	// pending is the number of replicas that have no node yet.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Pending int32 `json:"pending,omitempty"`

	// departing is the number of replicas on nodes that are going away.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Departing int32 `json:"departing,omitempty"`

	// outOfMixSince is when actual was first seen to differ from the mix. Absent while it does not.
	//
	// +optional
	MixNotSatisfiedSince *metav1.Time `json:"outOfMixSince,omitempty"`

	// blocked says why no replica is moved although the mix is not kept. Absent while it is kept, or a move is under way.
	//
	// +optional
	Blocked *BlockedMove `json:"blocked,omitempty"`

	// failedMoves is how many moves in a row failed: the replacement came to run on the wrong type again, or not at all.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	FailedMoves int32 `json:"failedMoves,omitempty"`

	// retryTime is when a move is tried again after the last one failed.
	//
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
}

// BlockedMove is why a replica that should move stays where it is.
type BlockedMove struct {
	// reason is one word for programs: NoRoom, OnDemandFloor, DisruptionBudget, RollingOut and so on.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Reason string `json:"reason"`

	// message is the same for people, with names and figures.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// MaxStatusWorkloads is how many workloads a CapacityMix lists in its status. Those out of their mix come first.
const MaxStatusWorkloads = 50
