// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/interruptions"
)

// maxAvoiding is how many terms Avoid adds at most, and maxAvoidedValues how many values one requirement has.
const maxAvoiding, maxAvoidedValues = 16, 100

// Avoid has the nodes of a pod be in none of the interruption domains in quarantine, by its required node affinity, and notes how many
// terms that takes. It must be the first change of the node affinity of a pod whose gate is removed. It changes nothing, and returns false,
// where the pod has a required node affinity of its own: the API server allows no further terms then.
func Avoid(pod *corev1.Pod, q *interruptions.Quarantine) bool {
	delete(pod.Annotations, v1alpha1.QuarantineTermsAnnotation) // a copy of another pod's
	terms := avoiding(&pod.Spec, q)
	if len(terms) == 0 {
		return false
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
	Annotate(pod, map[string]string{v1alpha1.QuarantineTermsAnnotation: strconv.Itoa(len(terms))})
	return true
}

// Avoids reports whether Avoid changes a pod with a spec.
func Avoids(spec *corev1.PodSpec, q *interruptions.Quarantine) bool {
	return len(avoiding(spec, q)) > 0
}

// avoiding returns the terms that exclude the domains in quarantine, none if they cannot be excluded.
func avoiding(spec *corev1.PodSpec, q *interruptions.Quarantine) []corev1.NodeSelectorTerm {
	if q == nil || requiredNodes(spec) != nil {
		return nil
	}
	var domains [][]string
	for _, name := range slices.Sorted(maps.Keys(q.Until)) {
		values := strings.Split(name, capacity.DomainSeparator)
		if len(values) == len(q.Keys) && !slices.ContainsFunc(values, invalidValue) {
			domains = append(domains, values)
		}
	}
	if len(domains) == 0 {
		return nil
	}
	terms := exclude(q.Keys, domains, nil, nil)
	if len(terms) > maxAvoiding {
		return nil
	}
	return terms
}

// invalidValue reports whether a value in the name of a domain is not that of a label, and not that of a missing one.
func invalidValue(value string) bool {
	return value != capacity.DomainMissing && len(validation.IsValidLabelValue(value)) > 0
}

// exclude appends the terms that match the nodes that are in none of some domains. A node is in none of them by its first value, or has
// that of some of them and is in none of these by the values that follow.
func exclude(
	keys []string, domains [][]string, prefix []corev1.NodeSelectorRequirement, to []corev1.NodeSelectorTerm,
) []corev1.NodeSelectorTerm {
	if len(to) > maxAvoiding {
		return to
	}
	key, byValue := keys[0], map[string][][]string{}
	for _, d := range domains {
		byValue[d[0]] = append(byValue[d[0]], d[1:])
	}
	with := func(all ...corev1.NodeSelectorRequirement) []corev1.NodeSelectorRequirement {
		return slices.Concat(prefix, all)
	}
	var others []corev1.NodeSelectorRequirement
	_, missing := byValue[capacity.DomainMissing]
	if missing {
		others = append(others, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists})
	}
	values := slices.DeleteFunc(slices.Sorted(maps.Keys(byValue)), func(v string) bool { return v == capacity.DomainMissing })
	if len(values) > maxAvoidedValues {
		return make([]corev1.NodeSelectorTerm, maxAvoiding+1)
	}
	if len(values) > 0 {
		others = append(others, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: values})
	}
	to = append(to, corev1.NodeSelectorTerm{MatchExpressions: with(others...)})
	if len(keys) == 1 {
		return to
	}
	for _, value := range values {
		in := corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
		to = exclude(keys[1:], byValue[value], with(in), to)
	}
	if missing {
		none := corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}
		to = exclude(keys[1:], byValue[capacity.DomainMissing], with(none), to)
	}
	return to
}

// avoided reports whether the required node affinity of a pod, in a copy of its spec, is that which Avoid wrote.
func avoided(nodes *corev1.NodeSelector, of *corev1.Pod) bool {
	text, there := of.Annotations[v1alpha1.QuarantineTermsAnnotation]
	if !there || nodes == nil {
		return false
	}
	n, err := strconv.ParseUint(text, 10, 8)
	_, ungated := LimitedTo(of)
	return err == nil && ungated && int(n) == len(nodes.NodeSelectorTerms)
}
