// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeploymentPhase is where a record stands, in one word.
//
// +kubebuilder:validation:Enum=Pending;Progressing;Available;Degraded;Deleting
type DeploymentPhase string

const (
	// PhasePending means that nothing was applied yet.
	PhasePending DeploymentPhase = "Pending"
	// PhaseProgressing means that all is applied, not all replicas are ready.
	PhaseProgressing DeploymentPhase = "Progressing"
	// PhaseAvailable means that all that was requested answers.
	PhaseAvailable DeploymentPhase = "Available"
	// PhaseDegraded means that it cannot be deployed as configured; the condition Degraded says why.
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

	// nfrRecommendations are what the last measurement requests, at most 256.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=component
	// +listMapKey=dimension
	// +optional
	NFRRecommendations []NFRRecommendation `json:"nfrRecommendations,omitempty"`

	// nfrCompliance says whether the class does what is requested of it.
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

// Conditions of a DeploymentRecord.
const (
	// ConditionAvailable is True while all that was requested answers.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while replicas are still to become ready.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when it cannot be deployed as configured. The last state that could be stays.
	ConditionDegraded = "Degraded"
	// ConditionNFRObserved is True when the last measurement could be made.
	ConditionNFRObserved = "NfrObserved"
)

// Reasons of the condition Degraded.
const (
	// ReasonNoTemplate: no DeploymentTemplate can be used.
	ReasonNoTemplate = "NoTemplate"
	// ReasonNameTaken: an object of a name that is needed belongs to another user.
	ReasonNameTaken = "NameTaken"
	// ReasonRefused: the API server refuses an object that was rendered.
	ReasonRefused = "Refused"
	// ReasonImageMissing: neither the record nor the controller's configuration has an image.
	ReasonImageMissing = "ImageMissing"
	// ReasonODGMOff: the record requires an ODGM, and the feature is off.
	ReasonODGMOff = "ODGMOff"
	// ReasonInvalidTemplate: the template cannot be rendered. It is the reason of Accepted=False of a DeploymentTemplate too.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonConfigured is the reason of Degraded=False.
	ReasonConfigured = "Configured"
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
