// SPDX-License-Identifier: Apache-2.0

// Package nodeselector works on the required node affinity of pods and volumes.
// It is pure.
package nodeselector

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Both returns a selector that matches the nodes that two others match; nil,
// which matches all, if both are nil. It is false if that makes more terms than
// most, and more than own has. What own and other point to is shared, and stays
// as it is.
func Both(own, other *corev1.NodeSelector, most int) (*corev1.NodeSelector, bool) {
	if other == nil {
		return own, true
	}
	var terms []corev1.NodeSelectorTerm
	if own == nil {
		terms = slices.DeleteFunc(slices.Clone(other.NodeSelectorTerms), func(t corev1.NodeSelectorTerm) bool { return Empty(&t) })
	} else {
		most = max(most, len(own.NodeSelectorTerms))
		for i := range own.NodeSelectorTerms {
			if terms = append(terms, meet(&own.NodeSelectorTerms[i], other.NodeSelectorTerms)...); len(terms) > most {
				break
			}
		}
	}
	if len(terms) == 0 { // no node; the API server refuses a list without a term
		terms = []corev1.NodeSelectorTerm{{}}
	}
	return &corev1.NodeSelector{NodeSelectorTerms: terms}, len(terms) <= most
}

// meet returns terms for the nodes that match a term and one of several others.
// A term that contains another already, as all do after the first time, stays.
func meet(own *corev1.NodeSelectorTerm, others []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	if Empty(own) {
		return nil
	}
	for i := range others {
		if !Empty(&others[i]) && contains(own.MatchExpressions, others[i].MatchExpressions) &&
			contains(own.MatchFields, others[i].MatchFields) {
			return []corev1.NodeSelectorTerm{*own}
		}
	}
	var out []corev1.NodeSelectorTerm
	for i := range others {
		if !Empty(&others[i]) {
			out = append(out, corev1.NodeSelectorTerm{
				MatchExpressions: join(own.MatchExpressions, others[i].MatchExpressions),
				MatchFields:      join(own.MatchFields, others[i].MatchFields),
			})
		}
	}
	return out
}

// join returns the conditions of two lists, those of the second that the first
// has only once.
func join(own, other []corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
	out := slices.Clone(own)
	for i := range other {
		if !contains(own, other[i:i+1]) {
			out = append(out, other[i])
		}
	}
	return out
}

// contains reports whether a list has all conditions of another.
func contains(list, others []corev1.NodeSelectorRequirement) bool {
	for i := range others {
		if !slices.ContainsFunc(list, func(r corev1.NodeSelectorRequirement) bool { return Same(&r, &others[i]) }) {
			return false
		}
	}
	return true
}

// Same reports whether two conditions are the same, values in the same order.
func Same(a, b *corev1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(a.Values, b.Values)
}

// Empty reports whether a term has no condition. Such a term matches no node.
func Empty(term *corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
}
