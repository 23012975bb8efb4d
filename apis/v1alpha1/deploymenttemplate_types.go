// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentTemplateSpec defines how the functions of a DeploymentRecord are rendered to objects, and which records it
// suits.
type DeploymentTemplateSpec struct {
	// description is a human-readable description of the template, at most 1024 characters.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// aliases are additional names by which a record can request the template, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Aliases []string `json:"aliases,omitempty"`

	// requires are the API groups that the cluster must serve for the template to be usable, such as
	// serving.knative.dev, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Requires []string `json:"requires,omitempty"`

	// capabilities are the capabilities of a workload of this template. A record that requires more does not get the
	// template unless it names it.
	//
	// +optional
	Capabilities *TemplateCapabilities `json:"capabilities,omitempty"`

	// resourceRequirements defines the resource requests and limits of pods for which neither function nor record
	// defines them.
	//
	// +optional
	ResourceRequirements *ResourceAllocation `json:"resourceRequirements,omitempty"`

	// metrics specifies how the requests of functions are measured that do not specify it.
	//
	// +optional
	Metrics *FunctionMetrics `json:"metrics,omitempty"`

	// selection defines how well the template suits a record that does not name a template. The template with the
	// highest sum of scores is selected. Ties are resolved by the lower order, then by name.
	//
	// +optional
	Selection TemplateSelection `json:"selection,omitempty"`

	// defaultPort is the port of functions that define none, from 1 to 65535. Defaults to 80.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=80
	// +optional
	DefaultPort int32 `json:"defaultPort,omitempty"`

	// functionManifests are rendered once for each function, at most 16: YAML of one object each. Scalars may contain
	// ${variables}: see docs/deployment-records.md.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=65536
	// +listType=atomic
	// +required
	FunctionManifests []string `json:"functionManifests"`

	// odgmManifests are rendered once if the record has an ODGM, at most 16. Defaults to the manifests of the
	// controller.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=65536
	// +listType=atomic
	// +optional
	ODGMManifests []string `json:"odgmManifests,omitempty"`

	// addons are the add-ons that records of this template can have in addition to the ODGM, at most 8.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Addons []TemplateAddon `json:"addons,omitempty"`
}

// TemplateAddon is an add-on that records of a template can have.
type TemplateAddon struct {
	// name is the name of the add-on, by which records request it: at most 30 lower-case letters, digits and '-'.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && self != 'odgm'",message="name must be lower-case letters, digits and '-' that begin with a letter and end with a letter or digit, and not odgm"
	// +required
	Name string `json:"name"`

	// description is a human-readable description of the add-on, at most 1024 characters.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// parameters are the parameters that a record can set, at most 32. Manifests refer to them as variables of the same
	// name.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Parameters []AddonParameter `json:"parameters,omitempty"`

	// manifests are rendered once for each record with the add-on, at most 16: YAML of one object each. The objects that
	// functions call have the name ${name}, which functions get in the environment variable ADDON_<NAME>.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=65536
	// +listType=atomic
	// +required
	Manifests []string `json:"manifests"`
}

// AddonParameterType is the type of a parameter.
//
// +kubebuilder:validation:Enum=String;Integer;Boolean;Quantity
type AddonParameterType string

const (
	// AddonParameterString is any text.
	AddonParameterString AddonParameterType = "String"
	// AddonParameterInteger is an integer.
	AddonParameterInteger AddonParameterType = "Integer"
	// AddonParameterBoolean is true or false.
	AddonParameterBoolean AddonParameterType = "Boolean"
	// AddonParameterQuantity is a quantity, such as 64Mi.
	AddonParameterQuantity AddonParameterType = "Quantity"
)

// AddonParameter is a parameter of an add-on.
type AddonParameter struct {
	// name is the name of the parameter: at most 63 letters and digits that begin with a lower-case letter.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][A-Za-z0-9]*$')",message="name must be letters and digits that begin with a lower-case letter"
	// +required
	Name string `json:"name"`

	// description is a human-readable description of the parameter, at most 1024 characters.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Description string `json:"description,omitempty"`

	// type is the type of the values: String, Integer, Boolean or Quantity. Defaults to String.
	//
	// +kubebuilder:default=String
	// +optional
	Type AddonParameterType `json:"type,omitempty"`

	// required specifies that a record must set the parameter.
	//
	// +optional
	Required bool `json:"required,omitempty"`

	// default is the value if a record does not set the parameter. If there is none, fields that refer to the parameter
	// are left out.
	//
	// +optional
	Default *ConfigValue `json:"default,omitempty"`

	// enum are the values that are allowed, at most 32. If unset, all values of the type are.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	// +optional
	Enum []ConfigValue `json:"enum,omitempty"`

	// minimum is the lowest allowed Integer.
	//
	// +kubebuilder:validation:Minimum=-1000000000000000
	// +kubebuilder:validation:Maximum=1000000000000000
	// +optional
	Minimum *int64 `json:"minimum,omitempty"`

	// maximum is the highest allowed Integer.
	//
	// +kubebuilder:validation:Minimum=-1000000000000000
	// +kubebuilder:validation:Maximum=1000000000000000
	// +optional
	Maximum *int64 `json:"maximum,omitempty"`
}

// TemplateCapabilities defines the capabilities of a workload of a template.
type TemplateCapabilities struct {
	// maxThroughputRPS is the maximum number of requests per second. If unset, there is no limit.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MaxThroughputRPS *int32 `json:"maxThroughputRPS,omitempty"`

	// minLatencyMS is the lowest latency that is possible, in milliseconds. If unset, any latency is possible.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	MinLatencyMS *int32 `json:"minLatencyMS,omitempty"`

	// autoScaling specifies that the number of replicas changes automatically.
	//
	// +optional
	AutoScaling bool `json:"autoScaling,omitempty"`

	// persistentStorage specifies that data outlives a replica.
	//
	// +optional
	PersistentStorage bool `json:"persistentStorage,omitempty"`

	// networkPolicies specifies that the template includes NetworkPolicies.
	//
	// +optional
	NetworkPolicies bool `json:"networkPolicies,omitempty"`
}

// TemplateSelection defines how well a template suits a record.
type TemplateSelection struct {
	// order resolves ties between templates: the lowest order is selected.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Order int32 `json:"order,omitempty"`

	// base are scores for properties of the cluster, at most 16. The first that matches applies. If none matches, the
	// score is 0.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Base []BaseScore `json:"base,omitempty"`

	// bonuses are added for requirements of a record, at most 16. All that match apply.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Bonuses []ScoreBonus `json:"bonuses,omitempty"`
}

// BaseScore is a score for properties of the cluster. All fields that are set must match.
type BaseScore struct {
	// profiles are profiles of the controller, at most 16. One of them must be enabled.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Profiles []string `json:"profiles,omitempty"`

	// edge specifies whether the cluster must be at the edge.
	//
	// +optional
	Edge *bool `json:"edge,omitempty"`

	// datacenter specifies whether the cluster must be in a data center.
	//
	// +optional
	Datacenter *bool `json:"datacenter,omitempty"`

	// score is the score if the properties match.
	//
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	// +required
	Score int32 `json:"score"`
}

// ScoreBonus is a score for requirements of a record. All fields that are set must match.
type ScoreBonus struct {
	// minThroughputRPS matches records that require at least this number of requests per second.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +optional
	MinThroughputRPS *int32 `json:"minThroughputRPS,omitempty"`

	// maxLatencyMS matches records that require at most this latency, in milliseconds.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	// +optional
	MaxLatencyMS *int32 `json:"maxLatencyMS,omitempty"`

	// availability matches records that require at least this availability: "0.999".
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0([.][0-9]+)?|1([.]0+)?)$')",message="availability must be a decimal number from 0 to 1, such as 0.999",messageExpression="\"availability must be a decimal number from 0 to 1, such as 0.999, not '\" + self + \"'\""
	// +optional
	Availability string `json:"availability,omitempty"`

	// consistency matches records that require this consistency.
	//
	// +optional
	Consistency Consistency `json:"consistency,omitempty"`

	// score is the score that is added.
	//
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	// +required
	Score int32 `json:"score"`
}

// DeploymentTemplateStatus is the most recently observed status of a DeploymentTemplate.
type DeploymentTemplateStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the template. Accepted is true if the manifests can be rendered.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// recordCount is the number of records that are rendered with the template.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RecordCount int32 `json:"recordCount,omitempty"`
}

// DeploymentTemplate defines how the functions of DeploymentRecords are rendered to objects. Templates in the namespace
// of the controller apply to records of all namespaces. A template of the same name in the namespace of the record
// takes precedence.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=deploymenttemplates,scope=Namespaced,shortName=dtpl,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`,description="Whether the template can be rendered"
// +kubebuilder:printcolumn:name="Records",type=integer,JSONPath=`.status.recordCount`,description="Number of records that are rendered with the template"
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`,priority=1,description="Description of the template"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DeploymentTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the template.
	//
	// +required
	Spec DeploymentTemplateSpec `json:"spec"`

	// status is the most recently observed status of the template.
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

	// items is the list of DeploymentTemplate objects.
	//
	// +required
	Items []DeploymentTemplate `json:"items"`
}
