// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// nodeTerm is a node selector term with its conditions parsed, with the meaning
// that the scheduler's NodeAffinity plugin gives it. That plugin's own parser
// is not used because it makes a map of every node's fields for each question,
// which is most of the cost of a Filter call. Tests hold the two together.
//
// The zero value, an empty term, matches no node.
type nodeTerm struct {
	labels labels.Selector
	fields []fieldRule
}

// fieldRule is a condition on a node's field: it must be the value, or must not.
type fieldRule struct {
	key, value string
	not        bool
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}

// newNodeTerm parses a term. Errors begin with the path of what is wrong.
func newNodeTerm(term *corev1.NodeSelectorTerm) (nodeTerm, error) {
	var t nodeTerm
	if len(term.MatchExpressions) > 0 {
		t.labels = labels.NewSelector()
	}
	for i := range term.MatchExpressions {
		r := &term.MatchExpressions[i]
		op, known := operators[r.Operator]
		if !known {
			return nodeTerm{}, fmt.Errorf("matchExpressions[%d].operator: %q is none of In, NotIn, Exists, DoesNotExist, Gt and Lt", i,
				r.Operator)
		}
		requirement, err := labels.NewRequirement(r.Key, op, r.Values)
		if err != nil {
			return nodeTerm{}, fmt.Errorf("matchExpressions[%d]: %w", i, err)
		}
		t.labels = t.labels.Add(*requirement)
	}
	for i := range term.MatchFields {
		r := &term.MatchFields[i]
		switch {
		case r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn:
			return nodeTerm{}, fmt.Errorf("matchFields[%d].operator: %q is neither In nor NotIn", i, r.Operator)
		case len(r.Values) != 1:
			return nodeTerm{}, fmt.Errorf("matchFields[%d].values: must have one value, not %d", i, len(r.Values))
		}
		t.fields = append(t.fields, fieldRule{key: r.Key, value: r.Values[0], not: r.Operator == corev1.NodeSelectorOpNotIn})
	}
	return t, nil
}

func (t *nodeTerm) matches(node *corev1.Node) bool {
	if t.labels == nil && t.fields == nil {
		return false
	}
	if t.labels != nil && !t.labels.Matches(labels.Set(node.Labels)) {
		return false
	}
	for i := range t.fields {
		// A field that nodes do not have is empty.
		value := ""
		if t.fields[i].key == metav1.ObjectNameField {
			value = node.Name
		}
		if (value == t.fields[i].value) == t.fields[i].not {
			return false
		}
	}
	return true
}
