// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/apis/v1alpha1"
)

func TestPodSelectorSelectsLikeALabelSelector(t *testing.T) {
	t.Parallel()
	pod := labels.Set{"app": "web", "tier": "front"}
	expression := func(key string, operator v1alpha1.PodSelectorOperator, values ...string) v1alpha1.PodSelector {
		return v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
	}

	cases := map[string]struct {
		selector v1alpha1.PodSelector
		want     bool
	}{
		"an empty selector selects every pod":  {v1alpha1.PodSelector{}, true},
		"labels that the pod has select it":    {v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, true},
		"one label of another value is enough": {v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web", "tier": "back"}}, false},
		"In with the pod's value selects it":   {expression("app", v1alpha1.PodSelectorOpIn, "api", "web"), true},
		"In without the pod's value does not":  {expression("app", v1alpha1.PodSelectorOpIn, "api"), false},
		"NotIn with the pod's value does not":  {expression("app", v1alpha1.PodSelectorOpNotIn, "web"), false},
		"NotIn of an absent label selects it":  {expression("zone", v1alpha1.PodSelectorOpNotIn, "a"), true},
		"Exists of a label the pod has":        {expression("tier", v1alpha1.PodSelectorOpExists), true},
		"DoesNotExist of a label the pod has":  {expression("tier", v1alpha1.PodSelectorOpDoesNotExist), false},
		"labels and expressions must both hold": {
			v1alpha1.PodSelector{
				MatchLabels:      map[string]string{"app": "web"},
				MatchExpressions: expression("zone", v1alpha1.PodSelectorOpExists).MatchExpressions,
			},
			false,
		},
		"DoesNotExist of a label the pod has not": {expression("zone", v1alpha1.PodSelectorOpDoesNotExist), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selector, err := metav1.LabelSelectorAsSelector(tc.selector.AsLabelSelector())
			require.NoError(t, err)
			assert.Equal(t, tc.want, selector.Matches(pod))
		})
	}
}

func TestAsLabelSelectorSharesNoMemory(t *testing.T) {
	t.Parallel()
	selector := v1alpha1.PodSelector{
		MatchLabels:      map[string]string{"app": "web"},
		MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: "tier", Operator: v1alpha1.PodSelectorOpIn, Values: []string{"front"}}},
	}
	want := selector.DeepCopy()

	got := selector.AsLabelSelector()
	got.MatchLabels["app"] = "changed"
	got.MatchExpressions[0].Values[0] = "changed"

	assert.Equal(t, *want, selector)
}
