// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func expression(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
}

func term(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions}
}

func requiring(terms ...corev1.NodeSelectorTerm) *corev1.PodSpec {
	return &corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}
}

func preferring(terms ...corev1.NodeSelectorTerm) *corev1.PodSpec {
	affinity := &corev1.NodeAffinity{}
	for _, t := range terms {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
			affinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: 1, Preference: t})
	}
	return &corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: affinity}}
}

func TestPins(t *testing.T) {
	const (
		karpenter = "karpenter.sh/capacity-type"
		zone      = "topology.kubernetes.io/zone"
		is        = corev1.NodeSelectorOpIn
		exists    = corev1.NodeSelectorOpExists
	)
	byName := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{expression("metadata.name", is, "n")}}
	selecting := func(key, value string) *corev1.PodSpec {
		return &corev1.PodSpec{NodeSelector: map[string]string{key: value}}
	}
	c := defaults(t)
	for name, tc := range map[string]struct {
		spec *corev1.PodSpec
		want bool
	}{
		"nodeSelector names a capacity label": {&corev1.PodSpec{NodeSelector: map[string]string{zone: "a", karpenter: "spot"}}, true},
		"nodeSelector with an unknown value":  {selecting(karpenter, "x"), true},
		"nodeSelector names the label of an Absent rule": {
			selecting("cloud.google.com/gke-spot", "true"), true,
		},
		"required affinity, In":    {requiring(term(expression(karpenter, is, "spot"))), true},
		"required affinity, NotIn": {requiring(term(expression(karpenter, corev1.NodeSelectorOpNotIn, "spot"))), true},
		"required affinity, DoesNotExist": {
			requiring(term(expression("cloud.google.com/gke-spot", corev1.NodeSelectorOpDoesNotExist))), true,
		},
		"required affinity, second expression": {requiring(term(expression(zone, exists), expression(karpenter, exists))), true},
		"required affinity, second term":       {requiring(term(expression(zone, exists)), term(expression(karpenter, exists))), true},
		"no spec":                              {nil, false},
		"empty spec":                           {&corev1.PodSpec{}, false},
		"empty affinity":                       {&corev1.PodSpec{Affinity: &corev1.Affinity{}}, false},
		"nodeSelector on other labels":         {selecting(zone, "a"), false},
		"nodeSelector on an evidence label":    {selecting("cloud.google.com/gke-nodepool", "p"), false},
		"nodeSelector with the value as a key": {selecting("on-demand", karpenter), false},
		"required affinity on other labels":    {requiring(term(expression(zone, is, karpenter))), false},
		"required affinity without terms":      {requiring(), false},
		"required affinity by node name":       {requiring(byName), false},
		"preferred affinity yields to the mix": {preferring(term(expression(karpenter, is, "spot"))), false},
		"a toleration for spot is no choice": {
			&corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: karpenter, Operator: corev1.TolerationOpExists}}},
			false,
		},
		"a spread constraint on it is no choice": {
			&corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: karpenter}}},
			false,
		},
		"pod affinity over the label is no choice": {
			&corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: karpenter}},
			}}}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, c.Pins(tc.spec))
			if tc.spec != nil {
				assert.Zero(t, testing.AllocsPerRun(10, func() { c.Pins(tc.spec) }), "runs for every pod")
			}
		})
	}
}

func TestKeys(t *testing.T) {
	keys := keysOf(defaults(t))
	assert.True(t, slices.IsSorted(keys))
	assert.Equal(t, slices.Compact(slices.Clone(keys)), keys, "each key once")
	for _, r := range DefaultRules() {
		assert.Contains(t, keys, r.Key)
		if r.Requires != "" {
			assert.NotContains(t, keys, r.Requires, "evidence is no capacity label")
		}
	}
}

func TestDomain(t *testing.T) {
	keys := []string{"zone", "type"}
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"both":                         {map[string]string{"zone": "a", "type": "m5.large", "other": "x"}, "a/m5.large"},
		"first missing":                {map[string]string{"type": "m"}, "?/m"},
		"first empty":                  {map[string]string{"zone": "", "type": "m"}, "/m"},
		"second missing":               {map[string]string{"zone": "a"}, "a/?"},
		"nothing":                      {nil, "?/?"},
		"a value that looks missing":   {map[string]string{"zone": "?", "type": "m"}, "%3F/m"},
		"a value with the separator":   {map[string]string{"zone": "a/b", "type": "%2F"}, "a%2Fb/%252F"},
		"a value that is not even UTF": {map[string]string{"zone": "\xff", "type": "é"}, "\xff/é"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, Domain(tc.labels, keys)) })
	}
	assert.Empty(t, Domain(map[string]string{"zone": "a"}, nil), "without keys all nodes share one domain")
	assert.Equal(t, "m/a", Domain(map[string]string{"zone": "a", "type": "m"}, []string{"type", "zone"}), "in the order of the keys")
}
