// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/interruptions"
)

var domainKeys = []string{"zone", "type", "rack"}

func drawDomain(t *rapid.T) map[string]string {
	labels := map[string]string{}
	for _, key := range domainKeys {
		if value := rapid.SampledFrom([]string{"", "a", "b", "c.d-1"}).Draw(t, key); value != "" {
			labels[key] = value
		}
	}
	return labels
}

// The affinity admits the nodes outside of quarantine, and no other node.
func TestTheAffinityExcludesTheDomainsInQuarantine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := domainKeys[:rapid.IntRange(1, 3).Draw(t, "keys")]
		q := &interruptions.Quarantine{Keys: keys, Until: map[string]time.Time{}}
		for range rapid.IntRange(0, 8).Draw(t, "domains") {
			q.Until[capacity.Domain(drawDomain(t), keys)] = time.Unix(1, 0)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
		if !gate.Avoid(pod, q) {
			require.Nil(t, pod.Spec.Affinity)
			require.False(t, gate.Avoids(&corev1.PodSpec{}, q))
			return
		}
		require.LessOrEqual(t, len(pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms), 16)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: drawDomain(t)}}
		matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		require.NoError(t, err)
		_, in := q.Until[capacity.Domain(node.Labels, keys)]
		require.Equal(t, !in, matches, "%v", node.Labels)
	})
}

func TestTheTermsOfAQuarantine(t *testing.T) {
	q := &interruptions.Quarantine{Keys: []string{"zone", "type"}, Until: map[string]time.Time{"a/m5": {}, "a/m6": {}, "b/m5": {}, "c/?": {}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	require.True(t, gate.Avoid(pod, q))
	is := func(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	term := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: all}
	}
	assert.Equal(t, requiring(
		term(is("zone", corev1.NodeSelectorOpNotIn, "a", "b", "c")),
		term(is("zone", corev1.NodeSelectorOpIn, "a"), is("type", corev1.NodeSelectorOpNotIn, "m5", "m6")),
		term(is("zone", corev1.NodeSelectorOpIn, "b"), is("type", corev1.NodeSelectorOpNotIn, "m5")),
		term(is("zone", corev1.NodeSelectorOpIn, "c"), is("type", corev1.NodeSelectorOpExists)),
	), pod.Spec)
	assert.Equal(t, "4", pod.Annotations[v1alpha1.QuarantineTermsAnnotation])
}

func TestAQuarantineThatIsTooLargeIsNotExcluded(t *testing.T) {
	for name, tc := range map[string]struct {
		domains func(i int) string
		n       int
		want    bool
	}{
		"one term for each zone":                   {func(i int) string { return fmt.Sprintf("z%d/m5", i) }, 15, true},
		"too many zones":                           {func(i int) string { return fmt.Sprintf("z%d/m5", i) }, 16, false},
		"many types of a zone":                     {func(i int) string { return fmt.Sprintf("z/m%d", i) }, 100, true},
		"too many types of a zone":                 {func(i int) string { return fmt.Sprintf("z/m%d", i) }, 101, false},
		"no value of a label":                      {func(int) string { return "z/%2F" }, 1, false},
		"a name that is no domain of these labels": {func(int) string { return "z" }, 1, false},
		"nothing": {nil, 0, false},
	} {
		q := &interruptions.Quarantine{Keys: []string{"zone", "type"}, Until: map[string]time.Time{}}
		for i := range tc.n {
			q.Until[tc.domains(i)] = time.Time{}
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Annotations: map[string]string{v1alpha1.QuarantineTermsAnnotation: "7"}}}
		assert.Equal(t, tc.want, gate.Avoid(pod, q), name)
		if !tc.want {
			assert.Equal(t, corev1.PodSpec{}, pod.Spec, name)
			assert.Empty(t, pod.Annotations, "%s: a copy of another pod's", name)
		}
	}
	assert.False(t, gate.Avoid(&corev1.Pod{}, nil))
}

func TestTheTermsOfAQuarantineAreThoseOfOnePodOnly(t *testing.T) {
	q := &interruptions.Quarantine{Keys: []string{"zone"}, Until: map[string]time.Time{"a": {}}}
	limits := []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1}}
	for _, label := range []gate.Label{karpenter, gke} {
		for _, requires := range [][]corev1.NodeSelectorRequirement{nil, limits} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred},
			}}}
			before := pod.Spec.DeepCopy()
			require.True(t, gate.Avoid(pod, q))
			label.Limit(&pod.Spec, capacity.OnDemand)
			gate.Require(pod, requires)
			gate.Annotate(pod, map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(pod, capacity.OnDemand)})
			if requires != nil {
				assert.Equal(t, requires, gate.Required(pod))
			}
			copied := pod.DeepCopy()
			copied.UID = "b"
			next := pod.Spec.DeepCopy()
			gate.Unrequire(next, copied)
			if requires == nil {
				assert.Equal(t, pod.Spec.Affinity, next.Affinity, "the terms of a copy are its own")
			}
			next = pod.Spec.DeepCopy()
			gate.Unrequire(next, pod)
			label.Unlimit(next)
			assert.Equal(t, before.Affinity, next.Affinity)
		}
	}
	own := requiring(corev1.NodeSelectorTerm{MatchExpressions: limits})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Spec: *own.DeepCopy()}
	assert.False(t, gate.Avoid(pod, q), "the API server allows no further terms")
	assert.Equal(t, own, pod.Spec)
	for _, text := range []string{"", "x", "-1", "2", "256", "18446744073709551616"} {
		pod.Annotations = map[string]string{v1alpha1.QuarantineTermsAnnotation: text, v1alpha1.ClaimAnnotation: "a/spot"}
		next := pod.Spec.DeepCopy()
		gate.Unrequire(next, pod)
		assert.Equal(t, own, *next, text)
	}
}
