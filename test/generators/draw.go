// SPDX-License-Identifier: Apache-2.0

// Package generators makes random objects for property tests: small worlds, in which
// rules often meet, with what is empty, odd or wrong in them.
package generators

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

var (
	keys = []string{"a", "b", "c", "example.com/d"}
	// values are of few kinds: empty, words, integers, and almost integers.
	values = []string{"", "x", "y", "0", "1", "5", "-3", "05", "1.5", "9223372036854775807"}
	// wrongValues are no label values; a number of them is no integer of 64 bits.
	wrongValues = []string{"9223372036854775808", "two words", "-", "-x"}
	names       = []string{"node-0", "node-1", "node-2"}
	operators   = []v1alpha1.NodeOperator{
		v1alpha1.NodeOpIn, v1alpha1.NodeOpNotIn, v1alpha1.NodeOpExists, v1alpha1.NodeOpDoesNotExist, v1alpha1.NodeOpGt, v1alpha1.NodeOpLt,
	}
)

// seldom is true once in n times.
func seldom(t *rapid.T, n int, what string) bool { return rapid.IntRange(1, n).Draw(t, what) == n }

// Node draws a node with some of a few labels.
func Node(t *rapid.T) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   rapid.SampledFrom(names).Draw(t, "node"),
		Labels: rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom(values), 0, len(keys)).Draw(t, "labels"),
	}}
}

// NodeSelector draws up to two labels that a node must have.
func NodeSelector(t *rapid.T) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom(values), 0, 2).Draw(t, "nodeSelector")
}

// NodeTerm draws a term; now and then one that is empty or that cannot be parsed.
func NodeTerm(t *rapid.T) v1alpha1.NodeTerm {
	var term v1alpha1.NodeTerm
	for range rapid.IntRange(0, 3).Draw(t, "expressions") {
		term.MatchExpressions = append(term.MatchExpressions, requirement(t))
	}
	for range max(0, rapid.IntRange(-3, 2).Draw(t, "fields")) {
		term.MatchFields = append(term.MatchFields, fieldRequirement(t))
	}
	return term
}

func requirement(t *rapid.T) v1alpha1.NodeRequirement {
	r := v1alpha1.NodeRequirement{Key: rapid.SampledFrom(keys).Draw(t, "key"), Operator: rapid.SampledFrom(operators).Draw(t, "operator")}
	count := map[v1alpha1.NodeOperator]int{
		v1alpha1.NodeOpExists: 0, v1alpha1.NodeOpDoesNotExist: 0, v1alpha1.NodeOpGt: 1,
		v1alpha1.NodeOpLt: 1,
	}
	n, fixed := count[r.Operator]
	if !fixed {
		n = rapid.IntRange(1, 4).Draw(t, "count")
	}
	if seldom(t, 30, "wrong") {
		n = rapid.IntRange(0, 2).Draw(t, "wrongCount")
		r.Operator = rapid.SampledFrom(append(operators, "Near", "")).Draw(t, "wrongOperator")
		r.Key = rapid.SampledFrom(append(keys, "", "a b")).Draw(t, "wrongKey")
	}
	for range n {
		from := values
		if seldom(t, 30, "wrongValue") {
			from = wrongValues
		}
		r.Values = append(r.Values, rapid.SampledFrom(from).Draw(t, "value"))
	}
	return r
}

func fieldRequirement(t *rapid.T) v1alpha1.NodeFieldRequirement {
	r := v1alpha1.NodeFieldRequirement{
		Key: metav1.ObjectNameField,
		Operator: rapid.SampledFrom([]v1alpha1.NodeFieldOperator{v1alpha1.NodeFieldOpIn, v1alpha1.NodeFieldOpNotIn}).Draw(t,
			"fieldOperator"),
		Values: []string{rapid.SampledFrom(names).Draw(t, "name")},
	}
	if seldom(t, 20, "wrongField") {
		r.Key = rapid.SampledFrom([]string{metav1.ObjectNameField, "spec.unschedulable"}).Draw(t, "wrongFieldKey")
		r.Operator = rapid.SampledFrom([]v1alpha1.NodeFieldOperator{v1alpha1.NodeFieldOpIn, v1alpha1.NodeFieldOpNotIn, "Exists"}).Draw(t,
			"wrongFieldOperator")
		r.Values = rapid.SliceOfN(rapid.SampledFrom(append(names, "")), 0, 2).Draw(t, "wrongNames")
	}
	return r
}

// NodeAffinity draws required and preferred terms, or nil.
func NodeAffinity(t *rapid.T) *v1alpha1.NodeAffinity {
	a := &v1alpha1.NodeAffinity{}
	if rapid.Bool().Draw(t, "required") {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &v1alpha1.NodeTerms{}
		terms := &a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for range rapid.IntRange(0, 4).Draw(t, "terms") {
			*terms = append(*terms, NodeTerm(t))
		}
	}
	for range max(0, rapid.IntRange(-2, 3).Draw(t, "preferences")) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			v1alpha1.PreferredNodeTerm{Weight: rapid.Int32Range(1, 100).Draw(t, "weight"), Preference: NodeTerm(t)})
	}
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil && a.PreferredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a
}

// ResourceLimit draws a limit with node rules only, of a new generation.
func ResourceLimit(t *rapid.T, namespace, name string) *v1alpha1.ResourceLimit {
	return &v1alpha1.ResourceLimit{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
		Spec:       v1alpha1.ResourceLimitSpec{NodeSelector: NodeSelector(t), NodeAffinity: NodeAffinity(t)},
	}
}

// PodSpec draws the node rules of a pod's own.
func PodSpec(t *rapid.T) *corev1.PodSpec {
	spec := &corev1.PodSpec{NodeSelector: NodeSelector(t)}
	if affinity := NodeAffinity(t); affinity != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: affinity.AsNodeAffinity()}
	}
	return spec
}

// Name draws one of the first n names with a prefix.
func Name(t *rapid.T, prefix string, n int) string {
	return prefix + strconv.Itoa(rapid.IntRange(0, n-1).Draw(t, prefix))
}
