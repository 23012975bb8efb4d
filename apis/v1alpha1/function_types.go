// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeploymentUnit is one class with its functions.
type DeploymentUnit struct {
	// id is the ID that the client chose for the deployment, any text. The name of the DeploymentRecord is derived from
	// it.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	ID string `json:"id,omitempty"`

	// packageName is the name of the package of the class.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PackageName string `json:"packageName,omitempty"`

	// classKey is the name of the class.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ClassKey string `json:"classKey,omitempty"`

	// targetCluster is the cluster that the client requested. It is informational: one Berth serves one cluster.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TargetCluster string `json:"targetCluster,omitempty"`

	// functions is the list of functions of the class, at most 64, unique by functionKey.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=functionKey
	// +optional
	Functions []FunctionSpec `json:"functions,omitempty"`

	// functionBindings are the names under which the class offers functions, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	// +optional
	FunctionBindings []FunctionBinding `json:"functionBindings,omitempty"`

	// createdAt is when the client created the unit.
	//
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
}

// FunctionSpec defines one function of a class: a container that serves HTTP, or a WebAssembly module that runs in the
// ODGM.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minScale) || !has(self.maxScale) || self.maxScale == 0 || self.maxScale >= self.minScale",message="maxScale must not be below minScale",fieldPath=".maxScale"
type FunctionSpec struct {
	// functionKey is the name of the function within the class.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	FunctionKey string `json:"functionKey"`

	// description is a human-readable description of the function, at most 1024 characters.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// image is the container image. Defaults to records.defaultFunctionImage of the controller's configuration. If
	// neither is set, the record is Degraded.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// port is the port that the container serves. Defaults to the defaultPort of the template.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// http2 specifies that the container serves HTTP/2 without TLS.
	//
	// +optional
	HTTP2 bool `json:"http2,omitempty"`

	// maxConcurrency is the maximum number of concurrent requests of a replica, from 0 to 1000000, if the template
	// supports it. 0 means no limit.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxConcurrency int32 `json:"maxConcurrency,omitempty"`

	// minScale is the minimum number of replicas, from 0 to 10000. Defaults to the number that the required
	// availability needs, 1 if no availability is required.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MinScale *int32 `json:"minScale,omitempty"`

	// maxScale is the maximum number of replicas, from 0 to 10000. If 0 or unset, only the controller's maximum
	// applies.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxScale *int32 `json:"maxScale,omitempty"`

	// resources defines the resource requests and limits of a replica. Defaults to spec.resourceAllocation.
	//
	// +optional
	Resources *ResourceAllocation `json:"resources,omitempty"`

	// availableLocation restricts the function to nodes of a zone: the value of their label
	// topology.kubernetes.io/zone.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	AvailableLocation string `json:"availableLocation,omitempty"`

	// nfrRequirements defines the non-functional requirements of the function. Defaults to the requirements of the
	// class.
	//
	// +optional
	NFRRequirements *NFRRequirements `json:"nfrRequirements,omitempty"`

	// config are the environment variables of the container, at most 128. Variables that Berth sets take precedence.
	//
	// +kubebuilder:validation:MaxProperties=128
	// +optional
	Config map[string]ConfigValue `json:"config,omitempty"`

	// readinessProbe determines when a replica serves: only then it gets requests, and counts for the condition Available.
	// Defaults to a TCP connection to the port. Type None disables the probe.
	//
	// +optional
	ReadinessProbe *FunctionProbe `json:"readinessProbe,omitempty"`

	// livenessProbe restarts a container that fails it. If unset, there is none.
	//
	// +optional
	LivenessProbe *FunctionProbe `json:"livenessProbe,omitempty"`

	// metrics specifies how the requests of the function are measured. Defaults to those of the template.
	//
	// +optional
	Metrics *FunctionMetrics `json:"metrics,omitempty"`

	// wasmModuleURL is the URL of a WebAssembly module. A function with a module has no pods: the ODGM runs it.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	WASMModuleURL string `json:"wasmModuleURL,omitempty"`
}

// FunctionMetrics specifies how the requests of a function are measured: the series that Prometheus has of them, and where the
// container serves them.
//
// +kubebuilder:validation:XValidation:rule="has(self.source) && self.source == 'Custom' || !has(self.requestCounter)",fieldPath=".requestCounter",message="requestCounter requires the source Custom"
// +kubebuilder:validation:XValidation:rule="has(self.source) && self.source == 'Custom' || !has(self.latencyHistogram)",fieldPath=".latencyHistogram",message="latencyHistogram requires the source Custom"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || self.source != 'Custom' || has(self.requestCounter) || has(self.latencyHistogram)",fieldPath=".latencyHistogram",reason=FieldValueRequired,message="latencyHistogram or requestCounter is required for the source Custom"
// +kubebuilder:validation:XValidation:rule="has(self.latencyHistogram) || !has(self.latencyUnit)",fieldPath=".latencyUnit",message="latencyUnit requires latencyHistogram"
// +kubebuilder:validation:XValidation:rule="has(self.port) || !has(self.path)",fieldPath=".path",message="path requires port"
type FunctionMetrics struct {
	// source is Record, HTTPServer, OpenTelemetry, Knative, Istio or Custom: the series that are queried. Defaults to Knative
	// for a Knative Service, else to Record. See docs/deployment-records.md.
	//
	// +optional
	Source MetricsSource `json:"source,omitempty"`

	// requestCounter is the name of a counter of requests, for the source Custom. Defaults to the count of latencyHistogram.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_:][a-zA-Z0-9_:]*$`
	// +optional
	RequestCounter string `json:"requestCounter,omitempty"`

	// latencyHistogram is the name of a histogram of the latency of requests, without the suffix _bucket, for the source
	// Custom. If unset, the latency is not measured.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=246
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_:][a-zA-Z0-9_:]*$`
	// +optional
	LatencyHistogram string `json:"latencyHistogram,omitempty"`

	// latencyUnit is Seconds or Milliseconds, the unit of latencyHistogram. Defaults to Seconds.
	//
	// +optional
	LatencyUnit LatencyUnit `json:"latencyUnit,omitempty"`

	// port is the port on which the container serves its metrics. If set, the pods have the annotations prometheus.io/scrape,
	// prometheus.io/port and prometheus.io/path.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// path is the path of the metrics, at most 1024 characters that start with a slash. Defaults to /metrics.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +optional
	Path string `json:"path,omitempty"`
}

// MetricsSource is a set of series about requests.
//
// +kubebuilder:validation:Enum=Record;HTTPServer;OpenTelemetry;Knative;Istio;Custom
type MetricsSource string

// Sources of metrics.
const (
	// MetricsRecord is http_server_requests_seconds with the label oaas_owner, for all functions of a record together.
	MetricsRecord MetricsSource = "Record"
	// MetricsHTTPServer is http_server_requests_seconds of the pods of a function.
	MetricsHTTPServer MetricsSource = "HTTPServer"
	// MetricsOpenTelemetry is http_server_request_duration_seconds of the pods of a function.
	MetricsOpenTelemetry MetricsSource = "OpenTelemetry"
	// MetricsKnative is what Knative measures.
	MetricsKnative MetricsSource = "Knative"
	// MetricsIstio is what the proxies of Istio measure.
	MetricsIstio MetricsSource = "Istio"
	// MetricsCustom is what requestCounter and latencyHistogram name, of the pods of a function.
	MetricsCustom MetricsSource = "Custom"
)

// LatencyUnit is the unit of a histogram.
//
// +kubebuilder:validation:Enum=Seconds;Milliseconds
type LatencyUnit string

// Units of latencies.
const (
	LatencySeconds      LatencyUnit = "Seconds"
	LatencyMilliseconds LatencyUnit = "Milliseconds"
)

// FunctionProbe is a probe of the container of a function.
//
// +kubebuilder:validation:XValidation:rule="!has(self.path) || !has(self.type) || self.type == 'HTTP'",fieldPath=".path",message="path requires the type HTTP"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'HTTP' || has(self.path)",fieldPath=".path",reason=FieldValueRequired,message="path is required for the type HTTP"
type FunctionProbe struct {
	// type is HTTP, TCP, GRPC or None. HTTP sends a GET request, TCP connects, GRPC calls the standard health service, None
	// disables the probe. Defaults to HTTP if path is set, else to TCP.
	//
	// +optional
	Type FunctionProbeType `json:"type,omitempty"`

	// path is the path of the GET request, at most 1024 characters that start with a slash. A status from 200 to 399 passes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	// +optional
	Path string `json:"path,omitempty"`

	// port is the port of the container. Defaults to the port of the function.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// initialDelaySeconds is the time from the start of the container to the first probe, from 0 to 3600 seconds.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +optional
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`

	// periodSeconds is the time between probes, from 1 to 3600 seconds. Defaults to 10.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is how long a probe may take, from 1 to 300 seconds. Defaults to 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is the number of failures in a row, from 1 to 100, after which the probe counts as failed.
	// Defaults to 3.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// FunctionProbeType specifies what a probe does.
//
// +kubebuilder:validation:Enum=HTTP;TCP;GRPC;None
type FunctionProbeType string

// Types of probes.
const (
	ProbeHTTP FunctionProbeType = "HTTP"
	ProbeTCP  FunctionProbeType = "TCP"
	ProbeGRPC FunctionProbeType = "GRPC"
	ProbeNone FunctionProbeType = "None"
)

// ConfigValue is the value of an environment variable.
//
// +kubebuilder:validation:MaxLength=32768
type ConfigValue string

// FunctionBinding binds a function to a method of the class.
type FunctionBinding struct {
	// name is the name of the method.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// functionKey is the name of the function.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FunctionKey string `json:"functionKey,omitempty"`

	// accessModifier specifies who can call the method.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	AccessModifier string `json:"accessModifier,omitempty"`

	// stateless specifies that the method needs no object.
	//
	// +optional
	Stateless *bool `json:"stateless,omitempty"`

	// parameters are the names of the parameters of the method, at most 64.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	// +optional
	Parameters []string `json:"parameters,omitempty"`
}

// ResourceAllocation defines the resource requests and limits of a pod.
type ResourceAllocation struct {
	// cpu is the CPU request of a pod, in cores: 500m, 2.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpu must be a quantity above 0`,messageExpression=`"cpu must be a quantity above 0, such as 500m or 2, not '" + self + "'"`
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1M')) <= 0`,message=`cpu must be at most 1M`
	// +optional
	CPU string `json:"cpu,omitempty"`

	// memory is the memory request of a pod, in bytes: 512Mi, 2Gi.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memory must be a quantity above 0`,messageExpression=`"memory must be a quantity above 0, such as 512Mi or 2Gi, not '" + self + "'"`
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`memory must be at most 1Pi`
	// +optional
	Memory string `json:"memory,omitempty"`

	// cpuLimit is the CPU limit of a pod, in cores. If unset, there is no limit.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`cpuLimit must be a quantity above 0`,messageExpression=`"cpuLimit must be a quantity above 0, such as 500m or 2, not '" + self + "'"`
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1M')) <= 0`,message=`cpuLimit must be at most 1M`
	// +optional
	CPULimit string `json:"cpuLimit,omitempty"`

	// memoryLimit is the memory limit of a pod, in bytes. If unset, there is no limit.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))`,message=`memoryLimit must be a quantity above 0`,messageExpression=`"memoryLimit must be a quantity above 0, such as 512Mi or 2Gi, not '" + self + "'"`
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`memoryLimit must be at most 1Pi`
	// +optional
	MemoryLimit string `json:"memoryLimit,omitempty"`
}

// Telemetry configures the telemetry of functions.
type Telemetry struct {
	// enabled enables telemetry.
	//
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// traces enables traces. Defaults to enabled.
	//
	// +optional
	Traces *bool `json:"traces,omitempty"`

	// metrics enables metrics. Defaults to enabled.
	//
	// +optional
	Metrics *bool `json:"metrics,omitempty"`

	// logs enables logs. Defaults to disabled.
	//
	// +optional
	Logs *bool `json:"logs,omitempty"`

	// samplingRate is the fraction of requests that are traced, from 0 to 1: "0.1".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="samplingRate must be a decimal number from 0 to 1, such as 0.1",messageExpression="\"samplingRate must be a decimal number from 0 to 1, such as 0.1, not '\" + self + \"'\""
	// +optional
	SamplingRate string `json:"samplingRate,omitempty"`

	// serviceName is the service name that functions report. Defaults to the name of the workload.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	ServiceName string `json:"serviceName,omitempty"`

	// resourceAttributes are attributes that are added to all telemetry, at most 64.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	ResourceAttributes map[string]AttributeValue `json:"resourceAttributes,omitempty"`
}

// AttributeValue is the value of an attribute or an option.
//
// +kubebuilder:validation:MaxLength=1024
type AttributeValue string
