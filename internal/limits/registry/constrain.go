// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/nodeselector"
)

// maxTerms bounds the required terms of a constrained pod: every scheduler and
// autoscaler tries them on every node.
const maxTerms = 64

// Constrain puts the node rules of a limit into a pod's spec, beside the pod's
// own, so that in-tree rules see what the scheduler plugin enforces. What spec
// points to is replaced, not changed. Doing it twice is the same as once.
//
// It returns what could not be expressed as it is in the limit, "" if all could:
// another value that the pod's nodeSelector has for a key, which leaves the pod
// no node; or more than 64 required terms, which leaves out those of the limit.
func Constrain(spec *corev1.PodSpec, limit *v1alpha1.ResourceLimit) (conflict string) {
	conflicting, conflicts := constrainSelector(spec, limit)
	rules := ptr.Deref(limit.Spec.NodeAffinity.AsNodeAffinity(), corev1.NodeAffinity{})
	required, preferred := rules.RequiredDuringSchedulingIgnoredDuringExecution, rules.PreferredDuringSchedulingIgnoredDuringExecution
	if required == nil && len(conflicting) == 0 && len(preferred) == 0 {
		return ""
	}
	affinity := ptr.Deref(spec.Affinity, corev1.Affinity{})
	own := ptr.Deref(affinity.NodeAffinity, corev1.NodeAffinity{})
	// In two steps: what is left out for its size must not depend on the first.
	terms := own.RequiredDuringSchedulingIgnoredDuringExecution
	if len(conflicting) > 0 {
		selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: conflicting}}}
		terms, _ = nodeselector.Both(terms, selector, maxTerms)
	}
	if merged, fits := nodeselector.Both(terms, required, maxTerms); fits {
		terms = merged
	} else {
		conflicts = append(conflicts, fmt.Sprintf("nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution is left out: "+
			"with the pod's own there would be more than %d nodeSelectorTerms", maxTerms))
	}
	own.RequiredDuringSchedulingIgnoredDuringExecution = terms
	own.PreferredDuringSchedulingIgnoredDuringExecution = union(own.PreferredDuringSchedulingIgnoredDuringExecution, preferred)
	if terms != nil || len(own.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		affinity.NodeAffinity = &own
		spec.Affinity = &affinity
	}
	if len(conflicts) == 0 {
		return ""
	}
	return fmt.Sprintf("ResourceLimit %q: %s", limit.Namespace+"/"+limit.Name, strings.Join(conflicts, "; "))
}

// constrainSelector adds the keys of the limit's nodeSelector that the pod has
// not. Those that it has with another value are returned as conditions, sorted,
// and in words.
func constrainSelector(spec *corev1.PodSpec, limit *v1alpha1.ResourceLimit) (conflicting []corev1.NodeSelectorRequirement,
	conflicts []string,
) {
	selector := maps.Clone(spec.NodeSelector)
	for _, key := range slices.Sorted(maps.Keys(limit.Spec.NodeSelector)) {
		value := limit.Spec.NodeSelector[key]
		own, has := selector[key]
		switch {
		case !has && selector == nil:
			selector = map[string]string{key: value}
		case !has:
			selector[key] = value
		case own != value:
			conflicting = append(conflicting,
				corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
			conflicts = append(conflicts, fmt.Sprintf("nodeSelector %s must be %q, the pod's own is %q", key, value, own))
		}
	}
	spec.NodeSelector = selector
	return conflicting, conflicts
}

// union appends the preferences that are not there. One that the limit has
// twice is there twice: weights add up.
func union(own, others []corev1.PreferredSchedulingTerm) []corev1.PreferredSchedulingTerm {
	out := slices.Clone(own)
	rest := slices.Clone(own)
	for i := range others {
		at := slices.IndexFunc(rest, func(p corev1.PreferredSchedulingTerm) bool {
			return equality.Semantic.DeepEqual(p, others[i])
		})
		if at < 0 {
			out = append(out, others[i])
			continue
		}
		rest = slices.Delete(rest, at, at+1)
	}
	return out
}
