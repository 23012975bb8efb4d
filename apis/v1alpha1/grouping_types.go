// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// PodGrouping specifies which pods of a mix form one group.
//
// +kubebuilder:validation:Enum=Controller;Selector;Top
type PodGrouping string

const (
	// PodGroupingController groups the pods of one direct controller, such as one ReplicaSet.
	PodGroupingController PodGrouping = "Controller"

	// PodGroupingSelector groups all pods that the mix governs.
	PodGroupingSelector PodGrouping = "Selector"

	// PodGroupingTop groups the pods below one highest owner, such as one Deployment with all its revisions.
	PodGroupingTop PodGrouping = "Top"
)

// PodUnitType specifies what the pods of a unit have in common.
//
// +kubebuilder:validation:Enum=Pod;Label;SchedulingGroup
type PodUnitType string

const (
	// PodUnitPod makes each pod a unit.
	PodUnitPod PodUnitType = "Pod"

	// PodUnitLabel makes the pods with the same value of a label a unit. A pod without the label is a unit.
	PodUnitLabel PodUnitType = "Label"

	// PodUnitSchedulingGroup makes the pods with the same spec.schedulingGroup a unit.
	PodUnitSchedulingGroup PodUnitType = "SchedulingGroup"
)

// PodUnit defines which pods hold one place in a mix together.
//
// +kubebuilder:validation:XValidation:rule="(self.type == 'Label') == (has(self.labelKey) && size(self.labelKey) > 0)",message="labelKey is required with type Label, and must be unset with other types",fieldPath=".labelKey"
type PodUnit struct {
	// type specifies what the pods of a unit have in common: Pod for one pod each, Label for the value of the label
	// labelKey, SchedulingGroup for spec.schedulingGroup.
	//
	// +required
	Type PodUnitType `json:"type"`

	// labelKey is the key of the label whose value identifies a unit. It is required with type Label, and must be unset
	// with other types.
	//
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self == '' || self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`labelKey must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"labelKey must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	LabelKey string `json:"labelKey,omitempty"`
}

// MixRole defines a fixed capacity type for some of the pods that a mix governs.
type MixRole struct {
	// name identifies the role in status and messages: at most 63 lower-case letters, digits or '-'.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message=`name must be at most 63 lower-case letters, digits or '-', with a letter or digit at both ends`,messageExpression=`"name must be at most 63 lower-case letters, digits or '-', with a letter or digit at both ends, not '" + self + "'"`
	// +required
	Name string `json:"name"`

	// selector selects the pods of the role among those that the mix governs. An empty selector ({}) selects all of them.
	//
	// +required
	Selector PodSelector `json:"selector"`

	// capacityType is the capacity type on which all pods of the role run: spot or on-demand. If it has no free capacity,
	// whenSpotUnavailable and whenOnDemandUnavailable of the mix apply.
	//
	// +kubebuilder:validation:Enum=spot;on-demand
	// +required
	CapacityType string `json:"capacityType"`
}
