// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/test/generators"
)

// inTree is the verdict of the scheduler's NodeAffinity plugin on a pod's spec.
func inTree(spec *corev1.PodSpec, node *corev1.Node) bool {
	matches, _ := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(node)
	return matches
}

// asSpec writes the node rules of a limit as a pod's own, without Constrain.
func asSpec(limit *v1alpha1.ResourceLimit) *corev1.PodSpec {
	spec := &corev1.PodSpec{NodeSelector: limit.Spec.NodeSelector}
	if affinity := limit.Spec.NodeAffinity.AsNodeAffinity(); affinity != nil {
		spec.Affinity = &corev1.Affinity{NodeAffinity: affinity}
	}
	return spec
}

func TestMatchesAgreesWithTheInTreeRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := generators.ResourceLimit(t, "shop", "small")
		compiled := registry.Compile(limit)
		for range 4 {
			node := generators.Node(t)
			require.Equal(t, inTree(asSpec(limit), node), compiled.Matches(node), "%+v", node.ObjectMeta)
			require.False(t, !compiled.Restricts() && !compiled.Matches(node), "a limit that does not restrict matches every node")
		}
	})
}

func TestScoreAgreesWithTheInTreeRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := generators.ResourceLimit(t, "shop", "small")
		affinity := limit.Spec.NodeAffinity.AsNodeAffinity()
		if affinity == nil {
			affinity = &corev1.NodeAffinity{}
		}
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			t.Skip("the in-tree plugin gives up where one term cannot be parsed")
		}
		compiled, node := registry.Compile(limit), generators.Node(t)
		require.Equal(t, terms.Score(node), compiled.Score(node))
		require.False(t, !compiled.Prefers() && compiled.Score(node) > 0)
	})
}

func TestAnUnparsableLimitIsNamed(t *testing.T) {
	t.Parallel()
	required := func(term v1alpha1.NodeTerm) v1alpha1.ResourceLimitSpec {
		return v1alpha1.ResourceLimitSpec{NodeAffinity: &v1alpha1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{NodeSelectorTerms: []v1alpha1.NodeTerm{{}, term}},
		}}
	}
	const at = "spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]."
	for name, tc := range map[string]struct {
		spec    v1alpha1.ResourceLimitSpec
		wantErr string
	}{
		"an operator of a label": {
			required(v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{{Key: "a", Operator: "Near"}}}),
			at + `matchExpressions[0].operator: "Near" is none of In, NotIn, Exists, DoesNotExist, Gt and Lt`,
		},
		"an operator of a field": {
			required(v1alpha1.NodeTerm{MatchFields: []v1alpha1.NodeFieldRequirement{{Key: metav1.ObjectNameField, Operator: "Exists"}}}),
			at + `matchFields[0].operator: "Exists" is neither In nor NotIn`,
		},
		"two names of one node": {
			required(v1alpha1.NodeTerm{MatchFields: []v1alpha1.NodeFieldRequirement{{Key: metav1.ObjectNameField, Operator: "In", Values: []string{"a", "b"}}}}),
			at + "matchFields[0].values: must have one value, not 2",
		},
		"a preference": {
			v1alpha1.ResourceLimitSpec{NodeAffinity: &v1alpha1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{
				{Weight: 1, Preference: v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{{Key: "a", Operator: "Gt", Values: []string{"x"}}}}},
			}}},
			`spec.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0]: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer`,
		},
		"a selector": {
			v1alpha1.ResourceLimitSpec{Selector: &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "a", Operator: "Gt"}}}},
			`spec.selector: "Gt" is not a valid label selector operator`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled := registry.Compile(&v1alpha1.ResourceLimit{Spec: tc.spec})
			require.EqualError(t, compiled.Err, tc.wantErr)
		})
	}
}

func TestMatchesAllocatesNothing(t *testing.T) {
	limit := &v1alpha1.ResourceLimit{Spec: v1alpha1.ResourceLimitSpec{
		NodeSelector: map[string]string{"pool": "batch"},
		NodeAffinity: &v1alpha1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{NodeSelectorTerms: []v1alpha1.NodeTerm{{
			MatchExpressions: []v1alpha1.NodeRequirement{
				{Key: "zone", Operator: v1alpha1.NodeOpIn, Values: []string{"a", "b"}},
				{Key: "cores", Operator: v1alpha1.NodeOpGt, Values: []string{"7"}},
			},
			MatchFields: []v1alpha1.NodeFieldRequirement{{Key: metav1.ObjectNameField, Operator: v1alpha1.NodeFieldOpNotIn, Values: []string{"node-1"}}},
		}}}},
	}}
	compiled := registry.Compile(limit)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", Labels: map[string]string{"pool": "batch", "zone": "b", "cores": "8"}}}
	require.True(t, compiled.Matches(node))
	assert.Zero(t, testing.AllocsPerRun(100, func() { compiled.Matches(node) }))
}
