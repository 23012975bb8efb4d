// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
)

var (
	karpenter = gate.Label{Key: "karpenter.sh/capacity-type", Spot: "spot", OnDemand: "on-demand"}
	// gke and reverse are labels that only one type of node has.
	gke     = gate.Label{Key: "cloud.google.com/gke-spot", Spot: "true"}
	reverse = gate.Label{Key: "stays", OnDemand: "yes"}
)

func TestHas(t *testing.T) {
	pod := &corev1.Pod{}
	assert.False(t, gate.Has(pod))
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/other"}}
	assert.False(t, gate.Has(pod), "another gate")
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.CapacityMixGate})
	assert.True(t, gate.Has(pod))
}

func TestOpened(t *testing.T) {
	for name, tc := range map[string]struct {
		claim string
		want  capacity.Type
	}{
		"spot":                      {"a/spot", capacity.Spot},
		"on-demand":                 {"a/on-demand", capacity.OnDemand},
		"never gated":               {"", capacity.Unknown},
		"copied from another pod":   {"b/spot", capacity.Unknown},
		"copied, with a longer UID": {"a-1/spot", capacity.Unknown},
		"no type":                   {"a/", capacity.Unknown},
		"no slash":                  {"a", capacity.Unknown},
		"a type that is not valid":  {"a/unknown", capacity.Unknown},
		"more than a type":          {"a/spot/x", capacity.Unknown},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a", Annotations: map[string]string{v1alpha1.ClaimAnnotation: tc.claim}}}
		got, ok := gate.Opened(pod)
		assert.Equal(t, tc.want, got, name)
		assert.Equal(t, tc.want != capacity.Unknown, ok, name)
	}
	_, ok := gate.Opened(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}})
	assert.False(t, ok, "no annotations")
	_, ok = gate.OpenedAs(map[string]string{v1alpha1.ClaimAnnotation: "/spot"}, "")
	assert.False(t, ok, "a pod that is being created has no UID yet")
}

func TestLimit(t *testing.T) {
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	absent := func(key string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}
	}
	term := func(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: all}
	}
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: term(zone)}}
	for name, tc := range map[string]struct {
		label      gate.Label
		to         capacity.Type
		spec, want corev1.PodSpec
	}{
		"spot by a value":      {karpenter, capacity.Spot, corev1.PodSpec{}, selecting(karpenter.Key, "spot")},
		"on-demand by a value": {karpenter, capacity.OnDemand, corev1.PodSpec{}, selecting(karpenter.Key, "on-demand")},
		"a selector of its own stays": {
			gke, capacity.Spot, selecting("disk", "ssd"), selecting("disk", "ssd", gke.Key, "true"),
		},
		"on-demand is without the label": {gke, capacity.OnDemand, corev1.PodSpec{}, requiring(term(absent(gke.Key)))},
		"spot is without the label":      {reverse, capacity.Spot, corev1.PodSpec{}, requiring(term(absent("stays")))},
		"every term, as one is enough": {
			gke, capacity.OnDemand, requiring(term(zone), term(zone, zone)), requiring(
				term(zone, absent(gke.Key)), term(zone, zone, absent(gke.Key)),
			),
		},
		"an empty term matches nothing, and still does": {
			gke, capacity.OnDemand, requiring(term(), term(zone)), requiring(term(), term(zone, absent(gke.Key))),
		},
		"preferences stay": {
			gke, capacity.OnDemand,
			corev1.PodSpec{
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred}},
			},
			func() corev1.PodSpec {
				s := requiring(term(absent(gke.Key)))
				s.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = preferred
				return s
			}(),
		},
	} {
		got := tc.spec.DeepCopy()
		tc.label.Limit(got, tc.to)
		assert.Equal(t, tc.want, *got, name)
	}
}

func selecting(pairs ...string) corev1.PodSpec {
	s := corev1.PodSpec{NodeSelector: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.NodeSelector[pairs[i]] = pairs[i+1]
	}
	return s
}

func requiring(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}
}

func TestTolerate(t *testing.T) {
	taint := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	seconds := func(n int64) corev1.Toleration {
		return corev1.Toleration{
			Key: "gone", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: &n,
		}
	}
	for name, tc := range map[string]struct{ own, added, want []corev1.Toleration }{
		"none":                {},
		"what it lacks":       {[]corev1.Toleration{seconds(9)}, []corev1.Toleration{taint}, []corev1.Toleration{seconds(9), taint}},
		"not twice":           {[]corev1.Toleration{taint}, []corev1.Toleration{taint, taint}, []corev1.Toleration{taint}},
		"not twice, both new": {nil, []corev1.Toleration{taint, taint}, []corev1.Toleration{taint}},
		"its own time stays":  {[]corev1.Toleration{seconds(9)}, []corev1.Toleration{seconds(1)}, []corev1.Toleration{seconds(9)}},
		"another effect is another": {
			[]corev1.Toleration{taint},
			[]corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
			[]corev1.Toleration{taint, {Key: "spot", Operator: corev1.TolerationOpExists}},
		},
	} {
		spec := &corev1.PodSpec{Tolerations: tc.own}
		gate.Tolerate(spec, tc.added)
		assert.Equal(t, tc.want, spec.Tolerations, name)
		gate.Tolerate(spec, tc.added)
		assert.Equal(t, tc.want, spec.Tolerations, "%s: once is enough", name)
	}
}

// An annotation that was copied from another pod is ignored, whatever its value is.
func FuzzOpenedAs(f *testing.F) {
	for _, claim := range []string{"", "a/spot", "a/on-demand", "a/unknown", "/spot", "a//spot", "b/a/spot", "a/spot\x00"} {
		f.Add(claim, "a", "b")
	}
	f.Fuzz(func(t *testing.T, claim, uid, other string) {
		annotations := map[string]string{v1alpha1.ClaimAnnotation: claim}
		got, ok := gate.OpenedAs(annotations, uid)
		require.Equal(t, ok, got != capacity.Unknown)
		if !ok {
			return
		}
		require.NotEmpty(t, uid)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
		require.Equal(t, claim, gate.ClaimOf(pod, got), "there is one way to say it")
		if other != uid {
			_, ok = gate.OpenedAs(annotations, other)
			require.False(t, ok, "a copy")
		}
	})
}

// A template can have any annotation, but has no UID.
func TestAnnotationsOfATemplateDoNotCountAsAGate(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "p",
			Annotations: map[string]string{v1alpha1.UngateReasonAnnotation: v1alpha1.UngateReasonNoLeader},
		},
	}
	assert.False(t, gate.Made(pod))
	pod.Annotations[v1alpha1.ClaimAnnotation] = "other/" + v1alpha1.UngateReasonNoLeader
	assert.False(t, gate.Made(pod))
	gate.Release(pod)
	assert.True(t, gate.Made(pod))
	_, opened := gate.Opened(pod)
	assert.False(t, opened, "it has no slot")
}
