// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/test/generators"
)

// leftOut is in what Constrain returns when the limit's terms did not fit.
const leftOut = "is left out"

// constrained is what must hold whatever the pod and the limit have.
func constrained(t *rapid.T) {
	limit, spec := generators.ResourceLimit(t, "shop", "small"), generators.PodSpec(t)
	if own := spec.Affinity; own != nil && own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		// Enough terms of the pod's own that the product can be too large, now and then.
		terms := &own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for n := range max(0, rapid.IntRange(-20, 30).Draw(t, "more")) {
			*terms = append(*terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "a", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint(n)}},
			}})
		}
	}
	before, limitBefore := spec.DeepCopy(), limit.DeepCopy()
	original := *spec // shares all memory with spec
	conflict := registry.Constrain(spec, limit)
	require.Equal(t, before, &original, "what the spec pointed to was changed")
	require.Equal(t, limitBefore, limit)

	compiled := registry.Compile(limit)
	for range 4 {
		node := generators.Node(t)
		want := inTree(before, node) && compiled.Matches(node)
		if strings.Contains(conflict, leftOut) {
			require.False(t, want && !inTree(spec, node), "a node that matches was lost")
			continue
		}
		require.Equal(t, want, inTree(spec, node), "%+v", node.ObjectMeta)
	}
	once := spec.DeepCopy()
	require.Equal(t, conflict, registry.Constrain(spec, limit))
	require.Equal(t, once, spec, "twice is not the same as once")
}

func TestConstrain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, constrained)
}

func FuzzConstrain(f *testing.F) { f.Fuzz(rapid.MakeFuzz(constrained)) }

// A pod that has none of the limit's preferences scores the sum of both after.
func TestConstrainAddsPreferences(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, spec := generators.ResourceLimit(t, "shop", "small"), generators.PodSpec(t)
		score := func(spec *corev1.PodSpec, node *corev1.Node) (int64, bool) {
			if spec.Affinity == nil {
				return 0, true
			}
			terms, err := nodeaffinity.NewPreferredSchedulingTerms(spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
			if err != nil {
				return 0, false
			}
			return terms.Score(node), true
		}
		node := generators.Node(t)
		own, ok := score(spec, node)
		registry.Constrain(spec, limit)
		both, parsed := score(spec, node)
		if !ok || !parsed {
			t.Skip("a preference that cannot be parsed")
		}
		require.Equal(t, own+registry.Compile(limit).Score(node), both)
	})
}

func expression(key, value string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}
}

func required(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

func TestConstrainReportsConflicts(t *testing.T) {
	t.Parallel()
	limit := limit("shop", "small", 0, nil)
	limit.Spec.NodeSelector = map[string]string{"pool": "batch", "disk": "ssd", "zone": "a"}

	spec := &corev1.PodSpec{NodeSelector: map[string]string{"pool": "web", "disk": "hdd", "arch": "arm64"}}
	conflict := registry.Constrain(spec, limit)

	assert.Equal(t, `ResourceLimit "shop/small": nodeSelector disk must be "ssd", the pod's own is "hdd"; nodeSelector pool must be "batch", the pod's own is "web"`, conflict)
	want := expression("disk", "ssd")
	want.MatchExpressions = append(want.MatchExpressions, expression("pool", "batch").MatchExpressions...)
	assert.Equal(t, &corev1.PodSpec{
		NodeSelector: map[string]string{"pool": "web", "disk": "hdd", "arch": "arm64", "zone": "a"}, Affinity: required(want),
	}, spec, "no node can match, as it must be")
}

// What random objects seldom have: preferences twice, and terms that match nothing.
func TestConstrainCornerCases(t *testing.T) {
	t.Parallel()
	prefer := func(value string) v1alpha1.PreferredNodeTerm {
		return v1alpha1.PreferredNodeTerm{Weight: 10, Preference: v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{
			{Key: "disk", Operator: v1alpha1.NodeOpIn, Values: []string{value}},
		}}}
	}
	limit := limit("shop", "small", 0, nil)
	limit.Spec.NodeAffinity = &v1alpha1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{prefer("ssd"), prefer("ssd")}}
	own := (&v1alpha1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{prefer("ssd"), prefer("hdd")}}).AsNodeAffinity()
	spec := &corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: own, PodAffinity: &corev1.PodAffinity{}}}
	original := own.DeepCopy()
	for range 2 {
		require.Empty(t, registry.Constrain(spec, limit))
		got := spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		assert.Len(t, got, 3, "the limit's two, of which the pod has one, and the pod's other")
		assert.Equal(t, original, own, "what the spec pointed to is as it was")
		assert.NotNil(t, spec.Affinity.PodAffinity, "other affinity stays")
	}

	nothing := &v1alpha1.ResourceLimit{ObjectMeta: limit.ObjectMeta}
	nothing.Spec.NodeAffinity = &v1alpha1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{}}
	for _, affinity := range []*corev1.Affinity{nil, required(), required(expression("a", "x"))} {
		spec := &corev1.PodSpec{Affinity: affinity}
		require.Empty(t, registry.Constrain(spec, nothing))
		assert.Equal(t, required(corev1.NodeSelectorTerm{}), spec.Affinity, "no node, in a form that the API server accepts")
	}
}

func TestConstrainBoundsTheTerms(t *testing.T) {
	t.Parallel()
	limit := limit("shop", "small", 0, nil)
	terms := &v1alpha1.NodeTerms{}
	limit.Spec.NodeAffinity = &v1alpha1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	for n := range 8 {
		terms.NodeSelectorTerms = append(terms.NodeSelectorTerms, v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{
			{Key: "pool", Operator: v1alpha1.NodeOpIn, Values: []string{fmt.Sprint(n)}},
		}})
	}
	own := func(n int) *corev1.PodSpec {
		affinity := required()
		for i := range n {
			list := &affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			*list = append(*list, expression("zone", fmt.Sprint(i)))
		}
		return &corev1.PodSpec{Affinity: affinity}
	}
	count := func(s *corev1.PodSpec) int {
		return len(s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	}

	fits := own(8)
	assert.Empty(t, registry.Constrain(fits, limit))
	assert.Equal(t, 64, count(fits))

	over := own(9)
	assert.Equal(t, `ResourceLimit "shop/small": nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution is left out: with the pod's own there would be more than 64 nodeSelectorTerms`, registry.Constrain(over, limit))
	assert.Equal(t, own(9), over)

	// One term more of the limit adds none to the pod, however many it has.
	terms.NodeSelectorTerms = terms.NodeSelectorTerms[:1]
	many := own(70)
	assert.Empty(t, registry.Constrain(many, limit))
	assert.Equal(t, 70, count(many))
}
