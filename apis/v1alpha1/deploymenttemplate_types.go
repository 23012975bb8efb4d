// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentTemplateSpec says how the functions of a DeploymentRecord become objects, and for which records it is meant.
type DeploymentTemplateSpec struct {
	// description says to people what the template is for.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// aliases are further names by which a record may request it, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Aliases []string `json:"aliases,omitempty"`

	// requires are API groups that must be served for the template to be used, as serving.knative.dev, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Requires []string `json:"requires,omitempty"`

	// capabilities are what a workload of this template can do. A record that requests more does not get it unless it
	// names it.
	//
	// +optional
	Capabilities *TemplateCapabilities `json:"capabilities,omitempty"`

	// resourceRequirements are what a pod requests and may use where neither function nor record say it.
	//
	// +optional
	ResourceRequirements *ResourceAllocation `json:"resourceRequirements,omitempty"`

	// selection says how well the template suits a record that names none. The template with the highest sum is taken,
	// of equal ones the one whose order is lower, then whose name is.
	//
	// +optional
	Selection TemplateSelection `json:"selection,omitempty"`

	// defaultPort is where functions serve that name no port.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8080
	// +optional
	DefaultPort int32 `json:"defaultPort,omitempty"`

	// functionManifests are rendered once for each function, at most 16: YAML of one object each. Scalars may hold
	// ${variables}: see docs/deployment-records.md.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=65536
	// +listType=atomic
	// +required
	FunctionManifests []string `json:"functionManifests"`

	// odgmManifests are rendered once where the record has an ODGM, at most 16. Absent means the controller's own.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=65536
	// +listType=atomic
	// +optional
	ODGMManifests []string `json:"odgmManifests,omitempty"`
}

// TemplateCapabilities are what a workload of a template can do.
type TemplateCapabilities struct {
	// maxThroughputRPS is how many requests a second it can serve at most. Absent means any number.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MaxThroughputRPS *int32 `json:"maxThroughputRPS,omitempty"`

	// minLatencyMS is how fast it can answer at best, in milliseconds. Absent means as fast as wanted.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	MinLatencyMS *int32 `json:"minLatencyMS,omitempty"`

	// autoScaling says that replicas come and use themselves.
	//
	// +optional
	AutoScaling bool `json:"autoScaling,omitempty"`

	// persistentStorage says that data outlive a replica.
	//
	// +optional
	PersistentStorage bool `json:"persistentStorage,omitempty"`

	// networkPolicies says that it comes with rules for the network.
	//
	// +optional
	NetworkPolicies bool `json:"networkPolicies,omitempty"`
}

// TemplateSelection says how well a template suits.
type TemplateSelection struct {
	// order decides between templates that suit equally well: the lowest is taken.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Order int32 `json:"order,omitempty"`

	// base are scores by where the controller runs, at most 16; the first that matches counts, 0 if none does.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Base []BaseScore `json:"base,omitempty"`

	// bonuses are added for what a record requests, at most 16; all that match count.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Bonuses []ScoreBonus `json:"bonuses,omitempty"`
}

// BaseScore is a score for where the controller runs. All that is said must hold.
type BaseScore struct {
	// profiles are profiles of the controller of which one must be on, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Profiles []string `json:"profiles,omitempty"`

	// edge says that the cluster must be, or must not be, at the edge.
	//
	// +optional
	Edge *bool `json:"edge,omitempty"`

	// datacenter says that the cluster must be, or must not be, in a data center.
	//
	// +optional
	Datacenter *bool `json:"datacenter,omitempty"`

	// score is the score.
	//
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	// +required
	Score int32 `json:"score"`
}

// ScoreBonus is added where a record requests as much. All that is said must hold.
type ScoreBonus struct {
	// minThroughputRPS matches records that request at least so many requests a second.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MinThroughputRPS *int32 `json:"minThroughputRPS,omitempty"`

	// maxLatencyMS matches records that request at most so many milliseconds.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	MaxLatencyMS *int32 `json:"maxLatencyMS,omitempty"`

	// availability matches records that request at least this share: "0.999".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="availability must be a decimal number from 0 to 1, such as 0.999",messageExpression="\"availability must be a decimal number from 0 to 1, such as 0.999, not '\" + self + \"'\""
	// +optional
	Availability string `json:"availability,omitempty"`

	// consistency matches records that request this one.
	//
	// +optional
	Consistency Consistency `json:"consistency,omitempty"`

	// score is what is added.
	//
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	// +required
	Score int32 `json:"score"`
}

// DeploymentTemplateStatus is what the controller last saw.
type DeploymentTemplateStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted: whether the manifests can be rendered.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// recordCount is how many records are rendered with it.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RecordCount int32 `json:"recordCount,omitempty"`
}

// DeploymentTemplate says how the functions of DeploymentRecords become objects. Those of the controller's own namespace
// are for records of all namespaces; one of the same name in the record's namespace comes first.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=deploymenttemplates,scope=Namespaced,shortName=dtpl,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether it can be rendered"
// +kubebuilder:printcolumn:name="Records",type=integer,JSONPath=`.status.recordCount`,description="Records that are rendered with it"
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`,priority=1,description="What it is for"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DeploymentTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	//
	// +required
	Spec DeploymentTemplateSpec `json:"spec"`

	// status is what the controller last saw.
	//
	// +optional
	Status DeploymentTemplateStatus `json:"status,omitempty"`
}

// DeploymentTemplateList is a list of DeploymentTemplate objects.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type DeploymentTemplateList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	//
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects of the list.
	//
	// +required
	Items []DeploymentTemplate `json:"items"`
}
