// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeploymentUnit is one class with its functions.
type DeploymentUnit struct {
	// id is the name that the client gave the deployment: any text. The record's own name is made from it.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ID string `json:"id,omitempty"`

	// packageName is the package of the class.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PackageName string `json:"packageName,omitempty"`

	// classKey names the class.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClassKey string `json:"classKey,omitempty"`

	// targetCluster is the cluster that the client requested. It is kept and shown; one Berth serves one cluster.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TargetCluster string `json:"targetCluster,omitempty"`

	// functions are the functions of the class, by functionKey, at most 64.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=functionKey
	// +optional
	Functions []FunctionSpec `json:"functions,omitempty"`

	// functionBindings say under which names the class offers functions, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	// +optional
	FunctionBindings []FunctionBinding `json:"functionBindings,omitempty"`

	// createdAt is when the client made the unit.
	//
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}

// FunctionSpec is one function of a class: a container that serves HTTP, or a WebAssembly module that runs in the ODGM.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minScale) || !has(self.maxScale) || self.maxScale == 0 || self.maxScale >= self.minScale",message="maxScale must not be below minScale",fieldPath=".maxScale"
type FunctionSpec struct {
	// functionKey names the function within the class.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	FunctionKey string `json:"functionKey"`

	// description says to people what the function does.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// image is the container image. Absent means the controller's records.defaultFunctionImage; without one, the
	// record is Degraded.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// port is where the container serves. Absent means the template's.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// http2 says that the container speaks HTTP/2 without TLS.
	//
	// +optional
	HTTP2 bool `json:"http2,omitempty"`

	// maxConcurrency is how many requests a replica takes at a time, where the template can tell it; 0 is no bound.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxConcurrency int32 `json:"maxConcurrency,omitempty"`

	// minScale is how many replicas there are at least. Absent means what the availability requests, 1 if it asks nothing.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MinScale *int32 `json:"minScale,omitempty"`

	// maxScale is how many replicas there are at most; 0 or absent is no bound but the controller's.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxScale *int32 `json:"maxScale,omitempty"`

	// resources are what a replica requests and may use. Absent means spec.resourceAllocation.
	//
	// +optional
	Resources *ResourceAllocation `json:"resources,omitempty"`

	// availableLocation keeps the function on nodes of a zone: the value of their label topology.kubernetes.io/zone.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	AvailableLocation string `json:"availableLocation,omitempty"`

	// nfrRequirements is what this function must be able to do. Absent means what is requested of the class.
	//
	// +optional
	NFRRequirements *NFRRequirements `json:"nfrRequirements,omitempty"`

	// config is the environment of the container, at most 128 variables. What Berth sets itself comes after it.
	//
	// +kubebuilder:validation:MaxProperties=128
	// +optional
	Config map[string]ConfigValue `json:"config,omitempty"`

	// wasmModuleURL is a WebAssembly module. Such a function has no pods of its own: the ODGM runs it.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	WASMModuleURL string `json:"wasmModuleURL,omitempty"`
}

// ConfigValue is the value of an environment variable.
//
// +kubebuilder:validation:MaxLength=32768
type ConfigValue string

// FunctionBinding is a function as a method of the class.
type FunctionBinding struct {
	// name is the name of the method.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// functionKey names the function.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FunctionKey string `json:"functionKey,omitempty"`

	// accessModifier says who may call it.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	AccessModifier string `json:"accessModifier,omitempty"`

	// stateless says that it needs no object.
	//
	// +optional
	Stateless *bool `json:"stateless,omitempty"`

	// parameters are the names of its parameters, at most 64.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	Parameters []string `json:"parameters,omitempty"`
}

// ResourceAllocation is what a pod requests and may use.
type ResourceAllocation struct {
	// cpu is what a pod requests, in cores: 500m, 2.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpu must be a quantity above 0`,messageExpression=`"cpu must be a quantity above 0, such as 500m or 2, not '" + self + "'"`
	// +optional
	CPU string `json:"cpu,omitempty"`

	// memory is what a pod requests, in bytes: 512Mi, 2Gi.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memory must be a quantity above 0`,messageExpression=`"memory must be a quantity above 0, such as 512Mi or 2Gi, not '" + self + "'"`
	// +optional
	Memory string `json:"memory,omitempty"`

	// cpuLimit is the most CPU that a pod may use. Absent means no bound.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpuLimit must be a quantity above 0`,messageExpression=`"cpuLimit must be a quantity above 0, such as 500m or 2, not '" + self + "'"`
	// +optional
	CPULimit string `json:"cpuLimit,omitempty"`

	// memoryLimit is the most memory that a pod may use. Absent means no bound.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memoryLimit must be a quantity above 0`,messageExpression=`"memoryLimit must be a quantity above 0, such as 512Mi or 2Gi, not '" + self + "'"`
	// +optional
	MemoryLimit string `json:"memoryLimit,omitempty"`
}

// Telemetry is what functions are told about where to report.
type Telemetry struct {
	// enabled turns it on.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// traces turns traces on or off. Absent means as enabled.
	//
	// +optional
	Traces *bool `json:"traces,omitempty"`

	// metrics turns metrics on or off. Absent means as enabled.
	//
	// +optional
	Metrics *bool `json:"metrics,omitempty"`

	// logs turns logs on or off. Absent means as enabled.
	//
	// +optional
	Logs *bool `json:"logs,omitempty"`

	// samplingRate is the share of requests that are traced, from 0 to 1: "0.1".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="samplingRate must be a decimal number from 0 to 1, such as 0.1",messageExpression="\"samplingRate must be a decimal number from 0 to 1, such as 0.1, not '\" + self + \"'\""
	// +optional
	SamplingRate string `json:"samplingRate,omitempty"`

	// serviceName is what they call themselves. Absent means the name of the workload.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// resourceAttributes are sent with all that is reported, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	ResourceAttributes map[string]AttributeValue `json:"resourceAttributes,omitempty"`
}

// AttributeValue is the value of an attribute or an option.
//
// +kubebuilder:validation:MaxLength=1024
type AttributeValue string
