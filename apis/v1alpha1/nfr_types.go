// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NFRRequirements defines non-functional requirements (NFRs).
type NFRRequirements struct {
	// maxLatencyMS is the maximum latency of requests at the 99th percentile, in milliseconds, from 1 to 3600000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	MaxLatencyMS *int32 `json:"maxLatencyMS,omitempty"`

	// minThroughputRPS is the number of requests per second that must be possible, from 0 to 100000000.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MinThroughputRPS *int32 `json:"minThroughputRPS,omitempty"`

	// availability is the required fraction of time in which the class responds, from 0 to 1: "0.999".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="availability must be a decimal number from 0 to 1, such as 0.999",messageExpression="\"availability must be a decimal number from 0 to 1, such as 0.999, not '\" + self + \"'\""
	// +optional
	Availability *string `json:"availability,omitempty"`

	// cpuUtilizationTarget is the desired fraction of its CPU that a replica uses, from 0 to 1: "0.7".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="cpuUtilizationTarget must be a decimal number from 0 to 1, such as 0.7",messageExpression="\"cpuUtilizationTarget must be a decimal number from 0 to 1, such as 0.7, not '\" + self + \"'\""
	// +optional
	CPUUtilizationTarget *string `json:"cpuUtilizationTarget,omitempty"`

	// consistency is the required consistency of reads: Strong or Eventual.
	//
	// +optional
	Consistency Consistency `json:"consistency,omitempty"`
}

// Consistency is the consistency of reads.
//
// +kubebuilder:validation:Enum=Strong;Eventual
type Consistency string

const (
	// ConsistencyStrong means that reads return all earlier writes.
	ConsistencyStrong Consistency = "Strong"
	// ConsistencyEventual means that reads return all writes eventually.
	ConsistencyEventual Consistency = "Eventual"
)

// NFREnforcement specifies what happens if requirements are not met.
type NFREnforcement struct {
	// mode is Off, Observe or Enforce: whether nothing is measured, recommendations are written to the status, or
	// recommendations are also applied. Defaults to Observe.
	//
	// +kubebuilder:default=Observe
	// +optional
	Mode EnforcementMode `json:"mode,omitempty"`

	// dimensions are the dimensions that may be changed. Defaults to replicas.
	//
	// +kubebuilder:validation:MaxItems=4
	// +listType=set
	// +optional
	Dimensions []NFRDimension `json:"dimensions,omitempty"`
}

// EnforcementMode specifies what happens to recommendations.
//
// +kubebuilder:validation:Enum=Off;Observe;Enforce
type EnforcementMode string

const (
	// EnforcementOff measures nothing.
	EnforcementOff EnforcementMode = "Off"
	// EnforcementObserve writes recommendations to the status.
	EnforcementObserve EnforcementMode = "Observe"
	// EnforcementEnforce also applies recommendations.
	EnforcementEnforce EnforcementMode = "Enforce"
)

// NFRDimension is what a recommendation changes.
//
// +kubebuilder:validation:Enum=replicas;cpu;memory
type NFRDimension string

const (
	// DimensionReplicas is the number of replicas of a function.
	DimensionReplicas NFRDimension = "replicas"
	// DimensionCPU is the CPU request of all replicas together, in millicores.
	DimensionCPU NFRDimension = "cpu"
	// DimensionMemory is the memory request of all replicas together, in bytes.
	DimensionMemory NFRDimension = "memory"
)

// Format returns a value of the dimension as people write it: replicas as a number, CPU as a quantity, memory as a
// quantity that is rounded up to a whole number of Mi.
func (d NFRDimension) Format(n int64) string {
	switch d {
	case DimensionCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case DimensionMemory:
		const mi = 1 << 20
		if whole := n / mi * mi; whole < n {
			n = whole + mi
		}
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return strconv.FormatInt(n, 10)
}

// NFRRecommendation is a recommendation that results from a measurement.
type NFRRecommendation struct {
	// component is the name of the workload that the recommendation applies to.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Component string `json:"component"`

	// dimension is the dimension of the workload that the recommendation changes.
	//
	// +required
	Dimension NFRDimension `json:"dimension"`

	// target is the recommended value: replicas, millicores or bytes.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +required
	Target int64 `json:"target"`

	// basis is a human-readable description of the measured values.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Basis string `json:"basis,omitempty"`

	// confidencePercent is the confidence in the recommendation, from 0 to 100 percent.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ConfidencePercent int32 `json:"confidencePercent,omitempty"`
}

// NFRWindow is a recommendation that has not been stable for long enough to be applied.
type NFRWindow struct {
	// component is the name of the workload that the recommendation applies to.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Component string `json:"component"`

	// dimension is the dimension of the workload that the recommendation changes.
	//
	// +required
	Dimension NFRDimension `json:"dimension"`

	// target is the recommended value since then.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +required
	Target int64 `json:"target"`

	// since is when the value was first recommended.
	//
	// +required
	Since metav1.Time `json:"since"`

	// seen is when the value was last recommended. If this is too long ago because nothing was measured, the window
	// restarts.
	//
	// +required
	Seen metav1.Time `json:"seen"`
}

// AppliedRecommendation is a recommendation that was applied.
type AppliedRecommendation struct {
	NFRRecommendation `json:",inline"`

	// value is the value that was set: the target within the bounds of the component.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +required
	Value int64 `json:"value"`

	// time is when the recommendation was applied.
	//
	// +required
	Time metav1.Time `json:"time"`
}

// NFRCompliance is whether the requirements are met.
type NFRCompliance struct {
	// overall is Met, Violated or Unknown, for all requirements together.
	//
	// +optional
	Overall Compliance `json:"overall,omitempty"`

	// throughput is Met, Violated or Unknown for minThroughputRPS. It is absent if minThroughputRPS is not set.
	//
	// +optional
	Throughput Compliance `json:"throughput,omitempty"`

	// latency is Met, Violated or Unknown for maxLatencyMS. It is absent if maxLatencyMS is not set.
	//
	// +optional
	Latency Compliance `json:"latency,omitempty"`

	// availability is Met, Violated or Unknown for availability. It is absent if availability is not set.
	//
	// +optional
	Availability Compliance `json:"availability,omitempty"`

	// lastChecked is when the class was last measured.
	//
	// +optional
	LastChecked *metav1.Time `json:"lastChecked,omitempty"`
}

// Compliance is whether a requirement is met.
//
// +kubebuilder:validation:Enum=Met;Violated;Unknown
type Compliance string

const (
	// ComplianceMet means that the requirement is met.
	ComplianceMet Compliance = "Met"
	// ComplianceViolated means that the requirement is not met.
	ComplianceViolated Compliance = "Violated"
	// ComplianceUnknown means that nothing was measured.
	ComplianceUnknown Compliance = "Unknown"
)
