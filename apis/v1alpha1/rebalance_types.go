// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RebalanceMode specifies what the controller does about replicas that run on the wrong capacity type.
//
// +kubebuilder:validation:Enum=Evict;Report;Off
type RebalanceMode string

const (
	// RebalanceModeEvict evicts them one at a time, and only if free capacity for the replacement is proven.
	RebalanceModeEvict RebalanceMode = "Evict"

	// RebalanceModeReport makes the same decisions and reports them, but evicts nothing.
	RebalanceModeReport RebalanceMode = "Report"

	// RebalanceModeOff leaves them where they are and only counts them.
	RebalanceModeOff RebalanceMode = "Off"
)

// Provisioning specifies where the capacity for the replacement of a replica comes from.
//
// +kubebuilder:validation:Enum=Wait;Placeholder
type Provisioning string

const (
	// ProvisioningWait moves a replica only if an existing node has free capacity for its replacement.
	ProvisioningWait Provisioning = "Wait"

	// ProvisioningPlaceholder creates a placeholder pod of low priority, for which an autoscaler can launch a node, and
	// moves the replica once the placeholder pod runs.
	ProvisioningPlaceholder Provisioning = "Placeholder"
)

// RebalanceStrategy specifies in which order a replica and its replacement go and come.
//
// +kubebuilder:validation:Enum=Evict;Surge;SurgeOrEvict
type RebalanceStrategy string

const (
	// RebalanceStrategyEvict evicts the replica first: the workload has one available replica less until the replacement is
	// available.
	RebalanceStrategyEvict RebalanceStrategy = "Evict"

	// RebalanceStrategySurge releases the replica from its ReplicaSet, which then creates the replacement, and evicts the replica
	// once the replacement is available. A replica that cannot be released is not moved.
	RebalanceStrategySurge RebalanceStrategy = "Surge"

	// RebalanceStrategySurgeOrEvict is Surge, and Evict for replicas that cannot be released.
	RebalanceStrategySurgeOrEvict RebalanceStrategy = "SurgeOrEvict"
)

// RebalanceSpec defines how replicas that run on the wrong capacity type are moved to the right one. Unset fields
// default to the controller's configuration.
type RebalanceSpec struct {
	// mode is Evict, Report or Off: whether replicas are moved, moves are only reported, or neither. Defaults to the
	// controller's configuration, which ships with Evict.
	//
	// +optional
	Mode RebalanceMode `json:"mode,omitempty"`

	// paused is whether no replica is moved until it is false again. Moves in progress are completed, and the placement of
	// pods is not affected. `kubectl berth pause` sets it. Defaults to false.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// maxConcurrent is the maximum number of replicas of this mix that are moved at the same time, from 1 to 100. A
	// move lasts from the eviction until the replacement is Ready. Defaults to the controller's configuration, which
	// ships with 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 100`,message=`maxConcurrent must be between 1 and 100`
	// +optional
	MaxConcurrent *int32 `json:"maxConcurrent,omitempty"`

	// maxMovesPerHour is the maximum number of moves of this mix that begin within an hour, from 1 to 1000. A unit of
	// several pods is one move. Defaults to the controller's configuration, which ships without a maximum.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 1000`,message=`maxMovesPerHour must be between 1 and 1000`
	// +optional
	MaxMovesPerHour *int32 `json:"maxMovesPerHour,omitempty"`

	// stabilizationSeconds is the time for which a workload must not have satisfied its mix before a replica is moved,
	// in seconds from 0 to 86400. Defaults to the controller's configuration, which ships with 60.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:validation:XValidation:rule=`self >= 0 && self <= 86400`,message=`stabilizationSeconds must be between 0 and 86400`
	// +optional
	StabilizationSeconds *int32 `json:"stabilizationSeconds,omitempty"`

	// provisioning is Wait or Placeholder: whether a replica moves only to existing nodes, or a placeholder pod first
	// makes an autoscaler launch a node. Defaults to the controller's configuration, which ships with Wait.
	//
	// +optional
	Provisioning Provisioning `json:"provisioning,omitempty"`

	// strategy is Evict, Surge or SurgeOrEvict: whether a replica is evicted before its replacement is created, or released
	// from its ReplicaSet and evicted once its replacement is available. With Surge and SurgeOrEvict, replicas on a node that
	// its provider is about to reclaim are released at once. Defaults to the controller's configuration, which ships with
	// Evict.
	//
	// +optional
	Strategy RebalanceStrategy `json:"strategy,omitempty"`

	// windows are the time windows in which replicas may be moved, at most 16. A move that starts in a window may
	// finish after it. If unset, replicas may be moved at any time.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Windows []RebalanceWindow `json:"windows,omitempty"`
}

// RebalanceWindow is a recurring time window in which replicas may be moved.
type RebalanceWindow struct {
	// schedule is when the window opens, as five cron fields: minute hour day-of-month month day-of-week.
	//
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[^ ]+( [^ ]+){4}$')`,message=`schedule must have five fields separated by single spaces, as in cron: minute hour day-of-month month day-of-week`,messageExpression=`"schedule must have five fields separated by single spaces, as in cron, not '" + self + "': minute hour day-of-month month day-of-week"`
	// +required
	Schedule string `json:"schedule"`

	// durationSeconds is the length of the window, in seconds from 60 to 604800 (seven days).
	//
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	// +kubebuilder:validation:XValidation:rule=`self >= 60 && self <= 604800`,message=`durationSeconds must be between 60 and 604800`
	// +required
	DurationSeconds int32 `json:"durationSeconds"`

	// timeZone is the IANA name of the time zone of schedule, such as Europe/Berlin. Defaults to UTC.
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

	// unknown is the number of replicas on nodes whose capacity type is unknown. They count as neither spot nor
	// on-demand.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
}

// WorkloadMix is the observed mix of one revision of a workload.
type WorkloadMix struct {
	// kind is the kind of the workload: Deployment, StatefulSet, Job, the kind of another controller, or that of a set such
	// as LeaderWorkerSet. CapacityMix means all pods that the mix governs, and Pod those of them that have no controller.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name is the workload's name, or that of its set.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// revision is the name of the ReplicaSet that manages this revision of a Deployment. The mix applies to each
	// revision separately.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Revision string `json:"revision,omitempty"`

	// role is the role in spec.roles whose pods these are. It is absent for pods of no role.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Role string `json:"role,omitempty"`

	// owners is the number of controllers of the pods, if there are several, as in a set of runners.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Owners int32 `json:"owners,omitempty"`

	// units is the number of units that exist, if replicas are units of pods that run on one capacity type together. All
	// numbers of replicas then count units. It is absent if each replica is a pod.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Units int32 `json:"units,omitempty"`

	// pods is the number of pods of these units.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// replicas is the desired number of replicas of this revision.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	Replicas int32 `json:"replicas"`

	// desired is the number of these replicas that the mix assigns to each capacity type.
	//
	// +required
	Desired ReplicaSplit `json:"desired"`

	// actual is the number of replicas on each capacity type, without those that have no node or are departing.
	//
	// +required
	Actual ReplicaSplit `json:"actual"`

	// borrowed is the number of replicas that run on the other capacity type than that of their slot.
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

	// departing is the number of replicas on departing nodes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Departing int32 `json:"departing,omitempty"`

	// outOfMixSince is when actual was first observed to differ from the mix. It is absent while the mix is satisfied.
	//
	// +optional
	MixNotSatisfiedSince *metav1.Time `json:"outOfMixSince,omitempty"`

	// blocked is why no replica is moved although the mix is not satisfied. It is absent while the mix is satisfied or
	// a move is in progress.
	//
	// +optional
	Blocked *BlockedMove `json:"blocked,omitempty"`

	// failedMoves is the number of consecutive failed moves: the replacement was scheduled to the wrong capacity type
	// again, or not at all.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	FailedMoves int32 `json:"failedMoves,omitempty"`

	// retryTime is when the next move may start after a failed one.
	//
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
}

// BlockedMove is why a replica on the wrong capacity type is not moved.
type BlockedMove struct {
	// reason is a machine-readable reason in CamelCase, such as OnDemandFloor, DisruptionBudget or RollingOut.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Reason string `json:"reason"`

	// message is a human-readable description of the reason, with names and numbers.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// MaxStatusWorkloads is the maximum number of workloads in the status of a CapacityMix.
const MaxStatusWorkloads = 50

// MaxStatusConditions is the maximum number of conditions there.
const MaxStatusConditions = 16
