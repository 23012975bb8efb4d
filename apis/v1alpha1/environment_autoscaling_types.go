// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// EnvironmentAutoscaling changes the number of replicas of a component with its usage, by a HorizontalPodAutoscaler. The
// cluster must serve the resource metrics API. The pods keep the capacity mix of the environment at every number.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",message="maxReplicas must not be below minReplicas",fieldPath=".maxReplicas"
type EnvironmentAutoscaling struct {
	// minReplicas is the lowest number of replicas, from 1 to 1000. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the highest number of replicas, from 1 to 1000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +required
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUPercent is the CPU usage that the autoscaler aims at, in percent of container.resources.cpu, from 1 to
	// 100. Defaults to 80 if targetMemoryPercent is not set.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	TargetCPUPercent *int32 `json:"targetCPUPercent,omitempty"`

	// targetMemoryPercent is the memory usage that the autoscaler aims at, in percent of container.resources.memory,
	// from 1 to 100. With targetCPUPercent, the higher number of replicas applies. Defaults to none.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	TargetMemoryPercent *int32 `json:"targetMemoryPercent,omitempty"`
}
