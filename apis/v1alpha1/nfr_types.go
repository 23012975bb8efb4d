// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NFRRequirements are non-functional requirements.
type NFRRequirements struct {
	// maxLatencyMS is how long a request may take at the 99th percentile, in milliseconds.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	MaxLatencyMS *int32 `json:"maxLatencyMS,omitempty"`

	// minThroughputRPS is how many requests a second must be possible.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MinThroughputRPS *int32 `json:"minThroughputRPS,omitempty"`

	// availability is the share of time in which the class must answer, from 0 to 1: "0.999".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="availability must be a decimal number from 0 to 1, such as 0.999",messageExpression="\"availability must be a decimal number from 0 to 1, such as 0.999, not '\" + self + \"'\""
	// +optional
	Availability *string `json:"availability,omitempty"`

	// cpuUtilizationTarget is the share of its CPU that a replica should use, from 0 to 1: "0.7".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="cpuUtilizationTarget must be a decimal number from 0 to 1, such as 0.7",messageExpression="\"cpuUtilizationTarget must be a decimal number from 0 to 1, such as 0.7, not '\" + self + \"'\""
	// +optional
	CPUUtilizationTarget *string `json:"cpuUtilizationTarget,omitempty"`

	// consistency is what reads may see: Strong or Eventual.
	//
	// +optional
	Consistency Consistency `json:"consistency,omitempty"`
}

// Consistency is what reads may see.
//
// +kubebuilder:validation:Enum=Strong;Eventual
type Consistency string

const (
	// ConsistencyStrong has reads see all that was written before.
	ConsistencyStrong Consistency = "Strong"
	// ConsistencyEventual has reads see it at some time.
	ConsistencyEventual Consistency = "Eventual"
)

// NFREnforcement says what may be done about requirements that are not met.
type NFREnforcement struct {
	// mode is Off, Observe or Enforce: whether nothing is measured, recommendations stand in the status, or are applied
	// as well. Absent means Observe.
	//
	// +kubebuilder:default=Observe
	// +optional
	Mode EnforcementMode `json:"mode,omitempty"`

	// dimensions are what may be changed. Absent means replicas.
	//
	// +kubebuilder:validation:MaxItems=4
	// +listType=set
	// +optional
	Dimensions []NFRDimension `json:"dimensions,omitempty"`
}

// EnforcementMode is what is done about recommendations.
//
// +kubebuilder:validation:Enum=Off;Observe;Enforce
type EnforcementMode string

const (
	// EnforcementOff measures nothing.
	EnforcementOff EnforcementMode = "Off"
	// EnforcementObserve writes recommendations into the status.
	EnforcementObserve EnforcementMode = "Observe"
	// EnforcementEnforce applies them as well.
	EnforcementEnforce EnforcementMode = "Enforce"
)

// NFRDimension is what a recommendation is about.
//
// +kubebuilder:validation:Enum=replicas;cpu;memory
type NFRDimension string

const (
	// DimensionReplicas is the number of replicas of a function.
	DimensionReplicas NFRDimension = "replicas"
	// DimensionCPU is the CPU that all replicas together should request, in millicores.
	DimensionCPU NFRDimension = "cpu"
	// DimensionMemory is the memory that all replicas together should request, in bytes.
	DimensionMemory NFRDimension = "memory"
)

// NFRRecommendation is what a measurement requests.
type NFRRecommendation struct {
	// component is the workload that it is about.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Component string `json:"component"`

	// dimension is what of it should change.
	//
	// +required
	Dimension NFRDimension `json:"dimension"`

	// target is the value: replicas, millicores or bytes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +required
	Target int64 `json:"target"`

	// basis says from which figures it was worked out.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Basis string `json:"basis,omitempty"`

	// confidencePercent is how sure it is, from 0 to 100.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConfidencePercent int32 `json:"confidencePercent,omitempty"`
}

// NFRWindow is a recommendation that waits.
type NFRWindow struct {
	// component is the workload that it is about.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Component string `json:"component"`

	// dimension is what of it should change.
	//
	// +required
	Dimension NFRDimension `json:"dimension"`

	// target is the value that was recommended since then.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +required
	Target int64 `json:"target"`

	// since is when that began.
	//
	// +required
	Since metav1.Time `json:"since"`

	// seen is when it was last recommended. Where that is too long ago, no one has measured, and it starts again.
	//
	// +required
	Seen metav1.Time `json:"seen"`
}

// AppliedRecommendation is one that was applied.
type AppliedRecommendation struct {
	NFRRecommendation `json:",inline"`

	// value is what was set: the target as far as bounds let it.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +required
	Value int64 `json:"value"`

	// time is when it was applied.
	//
	// +required
	Time metav1.Time `json:"time"`
}

// NFRCompliance says whether requirements are met.
type NFRCompliance struct {
	// overall is Met, Violated or Unknown.
	//
	// +optional
	Overall Compliance `json:"overall,omitempty"`

	// throughput is that of minThroughputRPS, absent if it is not requested.
	//
	// +optional
	Throughput Compliance `json:"throughput,omitempty"`

	// latency is that of maxLatencyMS, absent if it is not requested.
	//
	// +optional
	Latency Compliance `json:"latency,omitempty"`

	// availability is that of availability, absent if it is not requested.
	//
	// +optional
	Availability Compliance `json:"availability,omitempty"`

	// lastChecked is when it was measured.
	//
	// +optional
	LastChecked *metav1.Time `json:"lastChecked,omitempty"`
}

// Compliance says whether a requirement is met.
//
// +kubebuilder:validation:Enum=Met;Violated;Unknown
type Compliance string

const (
	// ComplianceMet means that the requirement is met.
	ComplianceMet Compliance = "Met"
	// ComplianceViolated means that it is not met.
	ComplianceViolated Compliance = "Violated"
	// ComplianceUnknown means that nothing was measured.
	ComplianceUnknown Compliance = "Unknown"
)
