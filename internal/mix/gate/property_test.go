// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
)

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
