// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

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

func TestAReplacementHasTheGateOfThePodThatItReplaces(t *testing.T) {
	gated := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}}}
	for name, tc := range map[string]struct {
		next, old *corev1.Pod
		want      int
	}{
		"of a pod with the gate":                 {&corev1.Pod{}, gated, 1},
		"of a pod that never had it":             {&corev1.Pod{}, &corev1.Pod{}, 0},
		"of a pod with it, and the template has": {gated.DeepCopy(), gated, 1},
	} {
		gate.Inherit(tc.next, tc.old)
		assert.Len(t, tc.next.Spec.SchedulingGates, tc.want, name)
	}
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
		got, ok := gate.LimitedTo(pod)
		assert.Equal(t, tc.want, got, name)
		assert.Equal(t, tc.want != capacity.Unknown, ok, name)
	}
	_, ok := gate.LimitedTo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}})
	assert.False(t, ok, "no annotations")
	_, ok = gate.LimitedToBy(map[string]string{v1alpha1.ClaimAnnotation: "/spot"}, "")
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
		"spot by a value":                {karpenter, capacity.Spot, corev1.PodSpec{}, selecting(karpenter.Key, "spot")},
		"on-demand by a value":           {karpenter, capacity.OnDemand, corev1.PodSpec{}, selecting(karpenter.Key, "on-demand")},
		"a selector of its own stays":    {gke, capacity.Spot, selecting("disk", "ssd"), selecting("disk", "ssd", gke.Key, "true")},
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
func FuzzLimitedToBy(f *testing.F) {
	for _, claim := range []string{"", "a/spot", "a/on-demand", "a/unknown", "/spot", "a//spot", "b/a/spot", "a/spot\x00"} {
		f.Add(claim, "a", "b")
	}
	f.Fuzz(func(t *testing.T, claim, uid, other string) {
		annotations := map[string]string{v1alpha1.ClaimAnnotation: claim}
		got, ok := gate.LimitedToBy(annotations, uid)
		require.Equal(t, ok, got != capacity.Unknown)
		if !ok {
			return
		}
		require.NotEmpty(t, uid)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
		require.Equal(t, claim, gate.ClaimOf(pod, got), "there is one way to say it")
		if other != uid {
			_, ok = gate.LimitedToBy(annotations, other)
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
	_, ungated := gate.LimitedTo(pod)
	assert.False(t, ungated, "it has no slot")
}

// drawSpec draws node constraints of pods, without the label: a pod with the label is not limited.
func drawSpec(t *rapid.T) *corev1.PodSpec {
	key := rapid.SampledFrom([]string{"a", "b", "c"})
	value := rapid.SampledFrom([]string{"", "1", "2"})
	requirement := rapid.Custom(func(t *rapid.T) corev1.NodeSelectorRequirement {
		r := corev1.NodeSelectorRequirement{Key: key.Draw(t, "key"), Operator: rapid.SampledFrom([]corev1.NodeSelectorOperator{
			corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
		}).Draw(t, "operator")}
		if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpNotIn {
			r.Values = rapid.SliceOfN(value, 1, 2).Draw(t, "values")
		}
		return r
	})
	term := rapid.Custom(func(t *rapid.T) (term corev1.NodeSelectorTerm) {
		term.MatchExpressions = rapid.SliceOfN(requirement, 0, 2).Draw(t, "expressions")
		if rapid.Bool().Draw(t, "by name") {
			term.MatchFields = []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}},
			}
		}
		return term
	})
	spec := &corev1.PodSpec{NodeSelector: rapid.MapOfN(key, value, 0, 2).Draw(t, "selector")}
	if rapid.Bool().Draw(t, "has affinity") {
		spec.Affinity = &corev1.Affinity{}
		if rapid.Bool().Draw(t, "has node affinity") {
			spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
			if terms := rapid.SliceOfN(term, 0, 3).Draw(t, "terms"); len(terms) > 0 {
				spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}
			}
		}
	}
	return spec
}

func drawNode(t *rapid.T) *corev1.Node {
	n := &corev1.Node{}
	n.Name = rapid.SampledFrom([]string{"n", "m"}).Draw(t, "name")
	n.Labels = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "1", "2"}), 0, 3).Draw(t, "labels")
	return n
}

func drawLimit(t *rapid.T) (gate.Label, capacity.Type) {
	return rapid.SampledFrom([]gate.Label{karpenter, gke, reverse}).Draw(t, "label"),
		rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}).Draw(t, "type")
}

// normalized is a spec without empty objects.
func normalized(spec *corev1.PodSpec) *corev1.PodSpec {
	spec = spec.DeepCopy()
	if a := spec.Affinity; a != nil {
		if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil &&
			a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution == nil {
			a.NodeAffinity = nil
		}
		if *a == (corev1.Affinity{}) {
			spec.Affinity = nil
		}
	}
	return spec
}

func TestUnlimitRestoresThePodsOwnConstraints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		label, to := drawLimit(t)
		limited := spec.DeepCopy()
		label.Limit(limited, to)
		label.Unlimit(limited)
		require.True(t, apiequality.Semantic.DeepEqual(normalized(spec), normalized(limited)), "%v, limited and not: %v", spec, limited)
	})
}

// Limit makes only changes to a gated pod that the API server allows: additions. Of the nodes that the pod may run on,
// it leaves exactly those of the type.
func TestLimitOnlyAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		label, to := drawLimit(t)
		limited := spec.DeepCopy()
		label.Limit(limited, to)
		for k, v := range spec.NodeSelector {
			require.Equal(t, v, limited.NodeSelector[k])
		}
		before, after := terms(spec), terms(limited)
		if before != nil {
			require.Len(t, after, len(before))
		}
		for i := range before {
			require.Equal(t, before[i].MatchFields, after[i].MatchFields)
			n := len(before[i].MatchExpressions)
			require.True(
				t,
				slices.EqualFunc(
					before[i].MatchExpressions, after[i].MatchExpressions[:n],
					func(a, b corev1.NodeSelectorRequirement) bool { return apiequality.Semantic.DeepEqual(a, b) },
				),
			)
			if n+len(before[i].MatchFields) == 0 {
				require.Empty(t, after[i].MatchExpressions, "an empty term matches nothing")
			}
		}
		for _, on := range []capacity.Type{capacity.Spot, capacity.OnDemand} {
			node := drawNode(t)
			if value := map[capacity.Type]string{capacity.Spot: label.Spot, capacity.OnDemand: label.OnDemand}[on]; value != "" {
				node.Labels[label.Key] = value
			}
			require.Equal(t, matches(t, spec, node) && on == to, matches(t, limited, node), "a node of type %s", on)
		}
	})
}

func terms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// matches is the rule of every scheduler.
func matches(t *rapid.T, spec *corev1.PodSpec, node *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(node)
	require.NoError(t, err)
	return ok
}

func TestTolerateOnlyAddsAndOnce(t *testing.T) {
	toleration := rapid.Custom(func(t *rapid.T) corev1.Toleration {
		return corev1.Toleration{
			Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Value: rapid.SampledFrom([]string{"", "x"}).Draw(t, "value"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{"", corev1.TaintEffectNoExecute}).Draw(t, "effect"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		own, added := rapid.SliceOf(toleration).Draw(t, "own"), rapid.SliceOf(toleration).Draw(t, "added")
		spec := &corev1.PodSpec{Tolerations: slices.Clone(own)}
		gate.Tolerate(spec, added)
		require.Equal(t, own, spec.Tolerations[:len(own):len(own)])
		for _, a := range added {
			require.True(t, slices.ContainsFunc(spec.Tolerations, func(have corev1.Toleration) bool { return have.MatchToleration(&a) }))
		}
		once := slices.Clone(spec.Tolerations)
		gate.Tolerate(spec, added)
		require.Equal(t, once, spec.Tolerations)
	})
}

func TestTheAffinityDecidesForPodsThatAreLimitedOrWillBe(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	assert.False(t, gate.ByAffinity(pod), "it never had the gate")
	gate.Inherit(pod, &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}}})
	assert.True(t, gate.ByAffinity(pod), "it has the gate")
	pod.Spec.SchedulingGates = nil
	pod.Annotations = map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(pod, capacity.Spot)}
	assert.True(t, gate.ByAffinity(pod), "it is limited to spot")
	gate.Release(pod)
	assert.False(t, gate.ByAffinity(pod), "its gate was removed without a slot")
}
