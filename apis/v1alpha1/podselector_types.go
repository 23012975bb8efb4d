// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodSelector selects pods by their labels. It has the format of a LabelSelector, but bounds every string, list and
// map, because the API server estimates the cost of validation rules for the largest value that a field may have.
// matchLabels and matchExpressions must all match. An empty selector selects every pod.
//
// +structType=atomic
type PodSelector struct {
	// matchLabels is a map of labels that a pod must have, at most 16.
	//
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule=`self.all(k, k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))`,message=`matchLabels must have label keys: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"matchLabels must have label keys, not '" + self.filter(k, !(k.size() <= 317 && k.indexOf('/') <= 253 && k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')))[0] + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions is a list of requirements on a pod's labels, at most 16.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []PodSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label in matchLabels. The type carries only the validation.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`matchLabels must have label values: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"matchLabels must have label values, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
type LabelValue = string

// PodSelectorRequirement is a requirement on one label of a pod.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : true",message="values must not be empty when operator is In or NotIn",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) || self.values.size() == 0 : true",message="values must be empty when operator is Exists or DoesNotExist",fieldPath=".values"
type PodSelectorRequirement struct {
	// key is the label key that the requirement applies to, at most 317 characters.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.indexOf('/') <= 253 && self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')`,message=`key must be a label key: an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"key must be a label key, not '" + self + "': an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +required
	Key string `json:"key"`

	// operator is the relation of the label to values: the label's value is one of values (In), is none of them or the
	// label is absent (NotIn), the label is present (Exists), or it is absent (DoesNotExist).
	//
	// +required
	Operator PodSelectorOperator `json:"operator"`

	// values are the label values that In and NotIn compare with, 1 to 32. They must be empty for Exists and
	// DoesNotExist.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule=`self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')`,message=`values must hold label values: empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit`,messageExpression=`"values must hold label values, not '" + self + "': empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"`
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// PodSelectorOperator relates a label to the values of a PodSelectorRequirement.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type PodSelectorOperator string

const (
	// PodSelectorOpIn matches if the label's value is one of the values.
	PodSelectorOpIn PodSelectorOperator = "In"

	// PodSelectorOpNotIn matches if the label's value is none of the values, or the label is absent.
	PodSelectorOpNotIn PodSelectorOperator = "NotIn"

	// PodSelectorOpExists matches if the label is present.
	PodSelectorOpExists PodSelectorOperator = "Exists"

	// PodSelectorOpDoesNotExist matches if the label is absent.
	PodSelectorOpDoesNotExist PodSelectorOperator = "DoesNotExist"
)

// AsLabelSelector returns the same selector as a metav1.LabelSelector. An empty PodSelector returns an empty
// LabelSelector, which selects every pod. The result shares no memory with s.
func (s *PodSelector) AsLabelSelector() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: maps.Clone(s.MatchLabels)}
	for i := range s.MatchExpressions {
		requirement := &s.MatchExpressions[i]
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      requirement.Key,
			Operator: metav1.LabelSelectorOperator(requirement.Operator),
			Values:   slices.Clone(requirement.Values),
		})
	}

	return selector
}
