// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeploymentRecordSpec defines the deployment of a class and its requirements.
type DeploymentRecordSpec struct {
	// deploymentUnit is the class and its functions.
	//
	// +required
	DeploymentUnit DeploymentUnit `json:"deploymentUnit"`

	// targetEnvironment is the environment that the client requested. It is informational: one Berth serves one
	// cluster.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TargetEnvironment string `json:"targetEnvironment,omitempty"`

	// nfrRequirements defines the non-functional requirements of the class as a whole. If unset, there are none.
	//
	// +optional
	NFRRequirements *NFRRequirements `json:"nfrRequirements,omitempty"`

	// templateHint is the name of the DeploymentTemplate, or one of its aliases. If unset, the controller selects the
	// template: see docs/deployment-records.md.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	TemplateHint string `json:"templateHint,omitempty"`

	// addons are the additional components, at most 8: odgm, and add-ons of the DeploymentTemplate. If unset, the ODGM is
	// deployed if it is enabled in the controller's configuration. An empty list means none.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=set
	// +optional
	Addons *[]Addon `json:"addons,omitempty"`

	// addonConfigs are the parameters of the add-ons, at most 8.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	AddonConfigs []AddonConfig `json:"addonConfigs,omitempty"`

	// odgmConfig configures the object data grid manager (ODGM) of the record.
	//
	// +optional
	ODGMConfig *ODGMConfig `json:"odgmConfig,omitempty"`

	// resourceAllocation defines the resource requests and limits of the pods of all functions without their own. A
	// ResourceLimit with the name of the record is created from it.
	//
	// +optional
	ResourceAllocation *ResourceAllocation `json:"resourceAllocation,omitempty"`

	// enforcement specifies what happens if the class does not meet its requirements.
	//
	// +optional
	Enforcement *NFREnforcement `json:"enforcement,omitempty"`

	// telemetry configures the telemetry of the functions. It is passed to them as environment variables.
	//
	// +optional
	Telemetry *Telemetry `json:"telemetry,omitempty"`
}

// Addon is the name of an additional component of a DeploymentRecord.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=30
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="addons must be lower-case letters, digits and '-' that begin with a letter and end with a letter or digit"
type Addon string

// AddonConfig has the parameters of an add-on.
type AddonConfig struct {
	// name is the name of the add-on.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +required
	Name string `json:"name"`

	// parameters are the parameters of the add-on, at most 32. The DeploymentTemplate defines their names and types.
	//
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	Parameters map[string]ConfigValue `json:"parameters,omitempty"`
}

// AddonODGM is the object data grid manager (ODGM).
const AddonODGM Addon = "odgm"

// Labels and annotations of DeploymentRecords and their objects.
const (
	// DeploymentIDLabel is the hash of the client's ID, because a label value cannot be any text.
	// DeploymentIDAnnotation is the ID.
	DeploymentIDLabel = AnnotationPrefix + "/deployment-id"
	// DeploymentIDAnnotation is the ID exactly as the client sent it.
	DeploymentIDAnnotation = AnnotationPrefix + "/deployment-id"
	// CorrelationIDAnnotation is the x-correlation-id of the call that last wrote the record.
	CorrelationIDAnnotation = AnnotationPrefix + "/correlation-id"
	// WireRevisionAnnotation is the revision of the messages that the client sent: plan or head.
	WireRevisionAnnotation = AnnotationPrefix + "/wire-revision"
	// OwnerLabel on an object is the name of its DeploymentRecord, for the metrics of its pods.
	OwnerLabel = AnnotationPrefix + "/record"
	// ComponentLabel on an object is function, odgm or addon.
	ComponentLabel = AnnotationPrefix + "/component"
	// AddonLabel on an object of an add-on is its name.
	AddonLabel = AnnotationPrefix + "/addon"
	// FunctionLabel on an object is the hash of the key of its function, because a label value cannot be any text.
	FunctionLabel = AnnotationPrefix + "/function"
	// RenderedAnnotation on an object is the hash of its rendered manifest.
	RenderedAnnotation = AnnotationPrefix + "/rendered"
	// RecordFinalizer prevents the deletion of a DeploymentRecord until its objects are deleted.
	RecordFinalizer = AnnotationPrefix + "/deployment-record"
)

// DeploymentRecord is the deployment of one class: its functions and, optionally, an object data grid manager (ODGM).
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=deploymentrecords,scope=Namespaced,shortName=drec,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.deploymentUnit.classKey`,description="Class that is deployed"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.template`,description="DeploymentTemplate that was rendered"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="State in one word"
// +kubebuilder:printcolumn:name="NFR",type=string,JSONPath=`.status.nfrCompliance.overall`,description="Whether the class meets its non-functional requirements"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1,description="Description of the state"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 253",fieldPath=".metadata",message="metadata.name must be at most 253 characters"
type DeploymentRecord struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the deployment.
	//
	// +required
	Spec DeploymentRecordSpec `json:"spec"`

	// status is the most recently observed status of the deployment.
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

	// items is the list of DeploymentRecord objects.
	//
	// +required
	Items []DeploymentRecord `json:"items"`
}
