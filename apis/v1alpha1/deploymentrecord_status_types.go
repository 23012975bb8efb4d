// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeploymentPhase is a one-word summary of the state of a DeploymentRecord.
//
// +kubebuilder:validation:Enum=Pending;Progressing;Available;Degraded;Deleting
type DeploymentPhase string

const (
	// PhasePending means that nothing has been applied yet.
	PhasePending DeploymentPhase = "Pending"
	// PhaseProgressing means that all objects are applied and not all replicas are ready.
	PhaseProgressing DeploymentPhase = "Progressing"
	// PhaseAvailable means that everything that the record requires is ready.
	PhaseAvailable DeploymentPhase = "Available"
	// PhaseDegraded means that the record cannot be deployed as configured. The condition Degraded has the reason.
	PhaseDegraded DeploymentPhase = "Degraded"
	// PhaseDeleting means that the objects of the record are being deleted.
	PhaseDeleting DeploymentPhase = "Deleting"
)

// DeploymentRecordStatus is the most recently observed status of a DeploymentRecord.
type DeploymentRecordStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the record: Available, Progressing, Degraded,
	// TemplateAsRequested and NfrObserved.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase is a one-word summary of the state.
	//
	// +optional
	Phase DeploymentPhase `json:"phase,omitempty"`

	// message is a human-readable description of the state.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// template is the name of the DeploymentTemplate that was rendered.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Template string `json:"template,omitempty"`

	// functions is the status of the functions, in the order of the spec.
	//
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=functionKey
	// +optional
	Functions []FunctionStatus `json:"functions,omitempty"`

	// odgm is the status of the object data grid manager (ODGM). It is absent if there is none.
	//
	// +optional
	ODGM *ODGMStatus `json:"odgm,omitempty"`

	// addons is the status of the add-ons of the template, at most 8.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Addons []AddonStatus `json:"addons,omitempty"`

	// resourceRefs is the list of objects that were created for the record, at most 512.
	//
	// +kubebuilder:validation:MaxItems=512
	// +listType=atomic
	// +optional
	ResourceRefs []ResourceRef `json:"resourceRefs,omitempty"`

	// nfrRecommendations are the recommendations of the last measurement, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=component
	// +listMapKey=dimension
	// +optional
	NFRRecommendations []NFRRecommendation `json:"nfrRecommendations,omitempty"`

	// nfrCompliance is whether the class meets its requirements.
	//
	// +optional
	NFRCompliance *NFRCompliance `json:"nfrCompliance,omitempty"`

	// nfrWindows are the recommendations that have not been stable for long enough to be applied, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=component
	// +listMapKey=dimension
	// +optional
	NFRWindows []NFRWindow `json:"nfrWindows,omitempty"`

	// lastApplied are the recommendations that were last applied, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=component
	// +listMapKey=dimension
	// +optional
	LastApplied []AppliedRecommendation `json:"lastApplied,omitempty"`
}

// AddonStatus is the observed status of an add-on.
type AddonStatus struct {
	// name is the name of the add-on.
	//
	// +kubebuilder:validation:MaxLength=30
	// +required
	Name string `json:"name"`

	// ready specifies whether all Deployments of the add-on are ready.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// FunctionStatus is the observed status of a function.
type FunctionStatus struct {
	// functionKey is the name of the function.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	FunctionKey string `json:"functionKey"`

	// service is the name of the function's Service.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Service string `json:"service,omitempty"`

	// port is the port of the Service.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// url is the URL of the function within the cluster.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`

	// replicas is the desired number of replicas.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of ready replicas.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// ready is true if all replicas are ready.
	//
	// +optional
	Ready bool `json:"ready,omitempty"`

	// metrics is how the requests of the function are measured.
	//
	// +optional
	Metrics *FunctionMetrics `json:"metrics,omitempty"`

	// reason is a machine-readable reason in CamelCase why the function is not ready.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Reason string `json:"reason,omitempty"`

	// message is a human-readable description of the reason.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// lastTransitionTime is when ready last changed.
	//
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ResourceRef identifies an object that was created for a record.
type ResourceRef struct {
	// apiVersion is the API group and version of the object.
	//
	// +kubebuilder:validation:MaxLength=317
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the object.
	//
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name is the name of the object. Its namespace is that of the record.
	//
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// uid is the UID of the object.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	UID string `json:"uid,omitempty"`
}

// Conditions of a DeploymentRecord.
const (
	// ConditionAvailable is True while everything that the record requires is ready.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while replicas are not ready yet.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True if the record cannot be deployed as configured. What was deployed before keeps running.
	ConditionDegraded = "Degraded"
	// ConditionTemplateAsRequested is True if the record is rendered with the template that it requests, and False if that
	// cannot be used and another one is. A record that requests no template does not have it.
	ConditionTemplateAsRequested = "TemplateAsRequested"
	// ConditionNFRObserved is True if the last measurement succeeded.
	ConditionNFRObserved = "NfrObserved"
	// ConditionMetricsAvailable is True if Prometheus has all series that were queried in the last measurement, False if some are
	// missing, which the message names, and Unknown if Prometheus could not be queried.
	ConditionMetricsAvailable = "MetricsAvailable"
)

// Reasons of the condition MetricsAvailable. If it is Unknown, it has the reason of NfrObserved.
const (
	// ReasonAllSeries: every series has data.
	ReasonAllSeries = "AllSeries"
	// ReasonMissingSeries: some series have no data.
	ReasonMissingSeries = "MissingSeries"
)

// Reasons of the condition Degraded.
const (
	// ReasonNoTemplate: no DeploymentTemplate is usable.
	ReasonNoTemplate = "NoTemplate"
	// ReasonNameTaken: an object with a required name belongs to another owner.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused: the API server rejects a rendered object.
	ReasonRefused = "Refused"
	// ReasonImageMissing: neither the record nor the controller's configuration has an image.
	ReasonImageMissing = "ImageMissing"
	// ReasonUnknownAddon: the record requests an add-on that its template does not have.
	ReasonUnknownAddon = "UnknownAddon"
	// ReasonInvalidAddon: the parameters of an add-on are not those that its template defines.
	ReasonInvalidAddon = "InvalidAddon"
	// ReasonODGMOff: the record requires an ODGM, and the feature is off.
	ReasonODGMOff = "ODGMOff"
	// ReasonInvalidTemplate: the template cannot be rendered. It is the reason of Accepted=False of a DeploymentTemplate too.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonConfigured is the reason of Degraded=False.
	ReasonConfigured = "Configured"
)

// Reasons of the condition TemplateAsRequested.
const (
	// ReasonAsRequested is the reason of TemplateAsRequested=True.
	ReasonAsRequested = "AsRequested"
	// ReasonTemplateUnusable: the requested template does not exist or needs an API that cannot be used.
	ReasonTemplateUnusable = "TemplateUnusable"
)

// Reasons of the conditions Available and Progressing, and of functions that are not ready, in addition to ReasonWaiting.
const (
	// ReasonAllReady is the reason of Available=True.
	ReasonAllReady = "AllReady"
	// ReasonNotReady is the reason of Available=False while replicas are still to become ready.
	ReasonNotReady = "NotReady"
	// ReasonSettled is the reason of Progressing=False when nothing is being changed.
	ReasonSettled = "Settled"
	// ReasonDegraded is the reason of Progressing=False when the record cannot be deployed as configured.
	ReasonDegraded = "Degraded"
	// ReasonMissing: the workload of a function does not exist yet.
	ReasonMissing = "Missing"
	// ReasonUnreadable: the workload of a function cannot be decoded.
	ReasonUnreadable = "Unreadable"
	// ReasonRunsInODGM: a function has no workload of its own, because it runs in the ODGM.
	ReasonRunsInODGM = "RunsInODGM"
)

// Reasons of the condition NfrObserved.
const (
	// ReasonPrometheusOK: at least one figure is known, and every query was answered.
	ReasonPrometheusOK = "PrometheusQueryOK"
	// ReasonPrometheusUnreachable: no answer came, or none in time.
	ReasonPrometheusUnreachable = "PrometheusUnreachable"
	// ReasonPrometheusQueryFailed: the answer was an error, or cannot be used.
	ReasonPrometheusQueryFailed = "PrometheusQueryFailed"
	// ReasonPrometheusNoData: every query was answered, none with a number.
	ReasonPrometheusNoData = "PrometheusNoData"
)
