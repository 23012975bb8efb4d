// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
)

func TestTheRequirementsOfDomainsAreThoseOfOnePodOnly(t *testing.T) {
	in := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	term := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: all}
	}
	own := in("zone", corev1.NodeSelectorOpNotIn, "a")
	ours := []corev1.NodeSelectorRequirement{in("zone", corev1.NodeSelectorOpExists), in("zone", corev1.NodeSelectorOpNotIn, "a")}
	named := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", corev1.NodeSelectorOpIn, "n")}}
	for name, tc := range map[string]struct {
		label      gate.Label
		spec, want corev1.PodSpec
	}{
		"no affinity":     {karpenter, corev1.PodSpec{}, requiring(term(ours...))},
		"one of its own":  {karpenter, requiring(term(own), term(own, own)), requiring(term(own, ours[0], ours[1]), term(own, own, ours[0], ours[1]))},
		"a node by name":  {karpenter, requiring(named), requiring(corev1.NodeSelectorTerm{MatchFields: named.MatchFields, MatchExpressions: ours})},
		"an empty term":   {karpenter, requiring(term(), term(own)), requiring(term(), term(own, ours[0], ours[1]))},
		"without a label": {gke, corev1.PodSpec{}, requiring(term(in(gke.Key, corev1.NodeSelectorOpDoesNotExist), ours[0], ours[1]))},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: *tc.spec.DeepCopy()}
		tc.label.Limit(&pod.Spec, capacity.OnDemand)
		gate.Require(pod, ours)
		assert.Equal(t, "2", pod.Annotations[v1alpha1.DomainRequirementsAnnotation], name)
		assert.Equal(t, tc.want.Affinity, pod.Spec.Affinity, name)
		assert.Empty(t, gate.Required(pod), "%s: its gate was not removed", name)
		gate.Annotate(pod, map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(pod, capacity.OnDemand)})
		assert.Equal(t, ours, gate.Required(pod), name)

		next := pod.Spec.DeepCopy()
		copied := pod.DeepCopy()
		copied.UID = "b"
		gate.Unrequire(next, copied)
		assert.Equal(t, pod.Spec.Affinity, next.Affinity, "%s: the requirements of a copy are its own", name)
		gate.Unrequire(next, pod)
		tc.label.Unlimit(next)
		if tc.spec.Affinity == nil {
			assert.Nil(t, next.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, name)
		} else {
			assert.Equal(t, len(tc.spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms),
				len(next.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms), name)
			for i, term := range tc.spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				got := next.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i]
				assert.ElementsMatch(t, term.MatchExpressions, got.MatchExpressions, name)
				assert.ElementsMatch(t, term.MatchFields, got.MatchFields, name)
			}
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Annotations: map[string]string{v1alpha1.DomainRequirementsAnnotation: "7"}}}
	gate.Require(pod, nil)
	assert.Empty(t, pod.Annotations, "a copy of another pod's")
}

func TestAnyNumberOfRequirementsIsHarmless(t *testing.T) {
	for _, text := range []string{"", "x", "-1", "1000000", "255", "18446744073709551616", "9"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "a", Annotations: map[string]string{
				v1alpha1.DomainRequirementsAnnotation: text, v1alpha1.ClaimAnnotation: "a/spot",
			}},
			Spec: requiring(corev1.NodeSelectorTerm{
				MatchExpressions: slices.Repeat([]corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}, 9),
			}),
		}
		next := pod.Spec.DeepCopy()
		gate.Unrequire(next, pod)
		assert.Equal(t, pod.Spec, *next, text)
		assert.Empty(t, gate.Required(pod), text)
	}
}
