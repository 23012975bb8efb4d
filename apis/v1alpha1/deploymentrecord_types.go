// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentRecordSpec says what of a class is deployed, and what is asked of it.
type DeploymentRecordSpec struct {
	// deploymentUnit is the class and its functions.
	//
	// +required
	DeploymentUnit DeploymentUnit `json:"deploymentUnit"`

	// targetEnvironment is the environment that the client asked for. It is kept and shown; one Berth serves one cluster.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TargetEnvironment string `json:"targetEnvironment,omitempty"`

	// nfrRequirements is what the class as a whole must be able to do. Absent asks nothing.
	//
	// +optional
	NFRRequirements *NFRRequirements `json:"nfrRequirements,omitempty"`

	// templateHint names the DeploymentTemplate to render with, by its name or one of its aliases. Absent has the
	// template chosen: see docs/deployment-records.md.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TemplateHint string `json:"templateHint,omitempty"`

	// addons are what is deployed beside the functions, at most 8. Absent means odgm, if the controller has it on; an
	// empty list means nothing.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	// +optional
	Addons *[]Addon `json:"addons,omitempty"`

	// odgmConfig configures the object data grid manager that runs beside the functions.
	//
	// +optional
	ODGMConfig *ODGMConfig `json:"odgmConfig,omitempty"`

	// resourceAllocation is the size of the pods of all functions that say none of their own. A ResourceLimit of the
	// record's name is made from it.
	//
	// +optional
	ResourceAllocation *ResourceAllocation `json:"resourceAllocation,omitempty"`

	// enforcement says what may be done where the class does not do what is asked of it.
	//
	// +optional
	Enforcement *NFREnforcement `json:"enforcement,omitempty"`

	// telemetry is what the functions are told about where to report. They get it as environment.
	//
	// +optional
	Telemetry *Telemetry `json:"telemetry,omitempty"`
}

// Addon is something that is deployed beside the functions.
//
// +kubebuilder:validation:Enum=odgm
type Addon string

// AddonODGM is the object data grid manager.
const AddonODGM Addon = "odgm"

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

	// targetCluster is the cluster that the client asked for. It is kept and shown; one Berth serves one cluster.
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

	// image is the container image. Absent means the controller's deployments.defaultFunctionImage; without one, the
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

	// minScale is how many replicas there are at least. Absent means what the availability asks for, 1 if it asks nothing.
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

	// nfrRequirements is what this function must be able to do. Absent means what is asked of the class.
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

// ODGMConfig configures the object data grid manager.
type ODGMConfig struct {
	// collections are the names of the collections that it keeps, at most 64.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Collections []string `json:"collections,omitempty"`

	// partitionCount is how many partitions a collection has. Absent means 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	// +optional
	PartitionCount *int32 `json:"partitionCount,omitempty"`

	// replicaCount is how many replicas a partition has. Absent means 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	ReplicaCount *int32 `json:"replicaCount,omitempty"`

	// shardType is how replicas of a partition agree. Absent means none.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ShardType string `json:"shardType,omitempty"`

	// invocations say where the ODGM sends calls.
	//
	// +optional
	Invocations *InvocationRoutes `json:"invocations,omitempty"`

	// options are passed on to every collection, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Options map[string]AttributeValue `json:"options,omitempty"`

	// log is the ODGM's log filter.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Log string `json:"log,omitempty"`

	// nodeID is the ODGM's number among its peers.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +optional
	NodeID *int64 `json:"nodeID,omitempty"`

	// nodeIDs are the numbers of the peers, by environment, at most 64 environments.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	NodeIDs map[string]NodeIDs `json:"nodeIDs,omitempty"`

	// assignments are the shards of the collections, by name, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Assignments map[string]ShardAssignments `json:"assignments,omitempty"`
}

// NodeIDs are numbers of ODGM nodes.
//
// +kubebuilder:validation:MaxItems=64
// +kubebuilder:validation:items:Minimum=0
// +kubebuilder:validation:items:Maximum=9223372036854774784
// +listType=atomic
type NodeIDs []int64

// ShardAssignments are the shards of a collection.
//
// +kubebuilder:validation:MaxItems=64
// +listType=atomic
type ShardAssignments []ShardAssignment

// ShardAssignment says which ODGM nodes keep a partition.
type ShardAssignment struct {
	// primary is the node that leads.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9223372036854774784
	// +optional
	Primary *int64 `json:"primary,omitempty"`

	// replica are the nodes that have a copy.
	//
	// +optional
	Replica NodeIDs `json:"replica,omitempty"`

	// shardIDs are the numbers of the shards.
	//
	// +optional
	ShardIDs NodeIDs `json:"shardIDs,omitempty"`
}

// InvocationRoutes say where the ODGM sends calls.
type InvocationRoutes struct {
	// routes are the routes by method, at most 256. Methods without one go to the functions of the record.
	//
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Routes map[string]FunctionRoute `json:"routes,omitempty"`

	// disabled are methods that are not offered, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Disabled []string `json:"disabled,omitempty"`
}

// FunctionRoute is where a method is called.
type FunctionRoute struct {
	// url is the address.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// functionKey names the function behind it.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FunctionKey string `json:"functionKey,omitempty"`

	// stateless says that it needs no object.
	//
	// +optional
	Stateless *bool `json:"stateless,omitempty"`

	// standby says that it is called only where others do not answer.
	//
	// +optional
	Standby *bool `json:"standby,omitempty"`

	// activeGroup are the ODGM nodes that call it.
	//
	// +optional
	ActiveGroup NodeIDs `json:"activeGroup,omitempty"`
}

// DeploymentPhase is where a record stands, in one word.
//
// +kubebuilder:validation:Enum=Pending;Progressing;Available;Degraded;Deleting
type DeploymentPhase string

const (
	// PhasePending means that nothing was applied yet.
	PhasePending DeploymentPhase = "Pending"
	// PhaseProgressing means that all is applied, not all replicas are ready.
	PhaseProgressing DeploymentPhase = "Progressing"
	// PhaseAvailable means that all that was asked for answers.
	PhaseAvailable DeploymentPhase = "Available"
	// PhaseDegraded means that it cannot be deployed as asked; the condition Degraded says why.
	PhaseDegraded DeploymentPhase = "Degraded"
	// PhaseDeleting means that its children are being removed.
	PhaseDeleting DeploymentPhase = "Deleting"
)

// DeploymentRecordStatus is what the controller last saw.
type DeploymentRecordStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Available, Progressing, Degraded and NfrObserved.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is the record's state in one word.
	//
	// +optional
	Phase DeploymentPhase `json:"phase,omitempty"`

	// message says the same to people.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// template names the DeploymentTemplate that was rendered.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Template string `json:"template,omitempty"`

	// functions are the functions in the order of the spec.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=functionKey
	// +optional
	Functions []FunctionStatus `json:"functions,omitempty"`

	// odgm is the object data grid manager, absent where there is none.
	//
	// +optional
	ODGM *ODGMStatus `json:"odgm,omitempty"`

	// resourceRefs are the objects that were made for the record, at most 512.
	//
	// +kubebuilder:validation:MaxItems=512
	// +listType=atomic
	// +optional
	ResourceRefs []ResourceRef `json:"resourceRefs,omitempty"`

	// nfrRecommendations are what the last measurement asks for, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=component
	// +listMapKey=dimension
	// +optional
	NFRRecommendations []NFRRecommendation `json:"nfrRecommendations,omitempty"`

	// nfrCompliance says whether the class does what is asked of it.
	//
	// +optional
	NFRCompliance *NFRCompliance `json:"nfrCompliance,omitempty"`

	// nfrWindows are the recommendations that wait to be applied until they have stood for a while, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=component
	// +listMapKey=dimension
	// +optional
	NFRWindows []NFRWindow `json:"nfrWindows,omitempty"`

	// lastApplied are the recommendations that were applied last, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=component
	// +listMapKey=dimension
	// +optional
	LastApplied []AppliedRecommendation `json:"lastApplied,omitempty"`
}

// FunctionStatus is how a function stands.
type FunctionStatus struct {
	// functionKey names the function.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	FunctionKey string `json:"functionKey"`

	// service is the name of its Service.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Service string `json:"service,omitempty"`

	// port is the port of that Service.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// url is where it answers within the cluster.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// replicas is how many there should be.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is how many are ready.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// ready says whether all are.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`

	// reason is why they are not, in one word.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Reason string `json:"reason,omitempty"`

	// message says it to people.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// lastTransitionTime is when ready last changed.
	//
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ODGMStatus is how the object data grid manager stands.
type ODGMStatus struct {
	// service is the name of its Service.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Service string `json:"service,omitempty"`

	// address is where functions reach it: host and port.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Address string `json:"address,omitempty"`

	// ready says whether all its replicas are.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// ResourceRef names an object that was made for a record.
type ResourceRef struct {
	// apiVersion is the object's group and version.
	//
	// +kubebuilder:validation:MaxLength=317
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the object's kind.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name is the object's name, in the record's namespace.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid is the object's UID.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	UID string `json:"uid,omitempty"`
}

// NFRRecommendation is what a measurement asks for.
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

	// seen is when it was last recommended. Where that is too long ago, nobody has measured, and it begins anew.
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

	// throughput is that of minThroughputRPS, absent if it is not asked for.
	//
	// +optional
	Throughput Compliance `json:"throughput,omitempty"`

	// latency is that of maxLatencyMS, absent if it is not asked for.
	//
	// +optional
	Latency Compliance `json:"latency,omitempty"`

	// availability is that of availability, absent if it is not asked for.
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

// Conditions of a DeploymentRecord.
const (
	// ConditionAvailable is True while all that was asked for answers.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while replicas are still to become ready.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when it cannot be deployed as asked. The last state that could be stays.
	ConditionDegraded = "Degraded"
	// ConditionNFRObserved is True when the last measurement could be made.
	ConditionNFRObserved = "NfrObserved"
)

// Reasons of the condition Degraded, besides those of internal/deployment.
const (
	// ReasonNoTemplate: no DeploymentTemplate can be used.
	ReasonNoTemplate = "NoTemplate"
	// ReasonNameTaken: an object of a name that is needed belongs to somebody else.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused: the API server refuses an object that was rendered.
	ReasonRefused = "Refused"
)

// Labels and annotations of DeploymentRecords and their children.
const (
	// DeploymentIDLabel has the hash of the client's id, which any text has; DeploymentIDAnnotation has the id.
	DeploymentIDLabel = AnnotationPrefix + "/deployment-id"
	// DeploymentIDAnnotation is the id that the client gave, exactly.
	DeploymentIDAnnotation = AnnotationPrefix + "/deployment-id"
	// CorrelationIDAnnotation is the x-correlation-id of the call that last wrote the record.
	CorrelationIDAnnotation = AnnotationPrefix + "/correlation-id"
	// WireRevisionAnnotation is the revision of the messages that the client spoke: plan or head.
	WireRevisionAnnotation = AnnotationPrefix + "/wire-revision"
	// OwnerLabel on a child names its DeploymentRecord, for the metrics that its pods have.
	OwnerLabel = AnnotationPrefix + "/record"
	// ComponentLabel on a child is function or odgm.
	ComponentLabel = AnnotationPrefix + "/component"
	// FunctionLabel on a child is the hash of its function's key, which any text has.
	FunctionLabel = AnnotationPrefix + "/function"
	// RecordFinalizer keeps a DeploymentRecord until its children are gone.
	RecordFinalizer = AnnotationPrefix + "/deployment-record"
)

// DeploymentRecord is the deployment of one class: its functions and, beside them, an object data grid manager.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=deploymentrecords,scope=Namespaced,shortName=drec,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.deploymentUnit.classKey`,description="The class that is deployed"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.template`,description="The template that was rendered"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where it stands"
// +kubebuilder:printcolumn:name="NFR",type=string,JSONPath=`.status.nfrCompliance.overall`,description="Whether it does what is asked of it"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1,description="The same in words"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 253",message="metadata.name must be at most 253 characters"
type DeploymentRecord struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is deployed.
	//
	// +required
	Spec DeploymentRecordSpec `json:"spec"`

	// status is what the controller last saw.
	//
	// +optional
	Status DeploymentRecordStatus `json:"status,omitempty"`
}

// DeploymentRecordList is a list of DeploymentRecord objects.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type DeploymentRecordList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects of the list.
	//
	// +required
	Items []DeploymentRecord `json:"items"`
}

// LabelZone is the node label that availableLocation is a value of.
const LabelZone = corev1.LabelTopologyZone
