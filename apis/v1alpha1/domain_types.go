// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// WhenDomainInterrupted specifies what happens to pods with spot slots while an interruption domain is in quarantine.
//
// +kubebuilder:validation:Enum=ScheduleAnyway;DoNotSchedule
type WhenDomainInterrupted string

const (
	// WhenDomainInterruptedScheduleAnyway prefers spot nodes of other domains.
	WhenDomainInterruptedScheduleAnyway WhenDomainInterrupted = "ScheduleAnyway"

	// WhenDomainInterruptedDoNotSchedule places the pods on no spot node of the domain until its quarantine ends.
	WhenDomainInterruptedDoNotSchedule WhenDomainInterrupted = "DoNotSchedule"
)

// WhenDomainFull specifies what happens to a pod when the domains in which it could run have as many replicas as a limit
// allows.
//
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type WhenDomainFull string

const (
	// WhenDomainFullDoNotSchedule keeps the pod pending until a domain has fewer replicas than the limit allows.
	WhenDomainFullDoNotSchedule WhenDomainFull = "DoNotSchedule"

	// WhenDomainFullScheduleAnyway prefers nodes of other domains.
	WhenDomainFullScheduleAnyway WhenDomainFull = "ScheduleAnyway"
)

// DomainLimit limits how many replicas of a group run in one domain.
//
// +kubebuilder:validation:XValidation:rule="has(self.maxPercent) != has(self.maxCount)",message="maxPerDomain must have exactly one of maxPercent and maxCount"
type DomainLimit struct {
	// topologyKey is the key of the node label that names the domain of a node. Nodes with equal values are in one
	// domain. With whenUnsatisfiable DoNotSchedule, the pods run on no node without the label.
	//
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253`,message=`topologyKey must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"topologyKey must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +required
	TopologyKey string `json:"topologyKey"`

	// maxPercent is the percentage of the replicas of a group that may run in one domain, from 1 to 100, rounded down to
	// whole replicas but at least 1. It is of the replicas that the workload requests; of those that exist, waiting ones
	// included, where Berth cannot determine that number, as for units.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 100`,message=`maxPercent must be between 1 and 100`
	// +optional
	MaxPercent *int32 `json:"maxPercent,omitempty"`

	// maxCount is the number of replicas of a group that may run in one domain, from 1 to 1000000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule=`self >= 1 && self <= 1000000`,message=`maxCount must be between 1 and 1000000`
	// +optional
	MaxCount *int32 `json:"maxCount,omitempty"`

	// whenUnsatisfiable specifies what happens to a pod when the domains in which it could run are full: DoNotSchedule
	// keeps it pending, ScheduleAnyway prefers nodes of other domains. Defaults to DoNotSchedule.
	//
	// +default="DoNotSchedule"
	// +optional
	WhenUnsatisfiable WhenDomainFull `json:"whenUnsatisfiable,omitempty"`
}
