// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeploymentRecordSpec says what of a class is deployed, and what is requested of it.
type DeploymentRecordSpec struct {
	// deploymentUnit is the class and its functions.
	//
	// +required
	DeploymentUnit DeploymentUnit `json:"deploymentUnit"`

	// targetEnvironment is the environment that the client requested. It is kept and shown; one Berth serves one cluster.
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

	// enforcement says what may be done where the class does not meet the requirements of it.
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
	// RenderedAnnotation on a child is the hash of what was rendered of it.
	RenderedAnnotation = AnnotationPrefix + "/rendered"
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
// +kubebuilder:printcolumn:name="NFR",type=string,JSONPath=`.status.nfrCompliance.overall`,description="Whether it does what is requested of it"
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
