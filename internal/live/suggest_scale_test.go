// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/suggest"
	"berth.dev/berth/test/clitest"
)

// many are workloads of one namespace with two pods each, and a budget for each.
func many(t testing.TB, n int) overview.SuggestInput {
	t.Helper()
	var pods []*corev1.Pod
	var owners []metav1.Object
	var budgets []*policyv1.PodDisruptionBudget
	for i := range n {
		for _, o := range set(fmt.Sprint("w", i), 2, func(p *corev1.Pod) { p.Labels["team"] = "shop" }) {
			if p, is := o.(*corev1.Pod); is {
				pods = append(pods, p)
				continue
			}
			owners = append(owners, o)
		}
		b := &policyv1.PodDisruptionBudget{ObjectMeta: named(fmt.Sprint("w", i))}
		b.Spec.MaxUnavailable = new(intstr.FromString("60%"))
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop", "app": fmt.Sprint("w", i)}}
		budgets = append(budgets, b)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "o1", Labels: map[string]string{"karpenter.sh/capacity-type": "on-demand"}}}
	settings, err := live.Defaults()
	require.NoError(t, err)
	book, err := prices.New(prices.Options{})
	require.NoError(t, err)
	return overview.SuggestInput{
		Cluster: overview.NewCluster(settings, pods, []*corev1.Node{node}, nil, owners, budgets), Book: book, Now: clitest.Now,
	}
}

// Twice as many workloads cost twice as much. internal/mix/suggest bounds the comparisons of selectors.
func TestSuggestionsCostInProportionToTheWorkloads(t *testing.T) {
	cost := func(n int) float64 {
		in := many(t, n)
		s := overview.Suggest(in)
		require.Len(t, s.Suggestions, n)
		for _, one := range s.Suggestions {
			assert.Contains(t, one.Findings, suggest.Finding{
				Reason: "Budget", Effect: suggest.Limits, Message: "PodDisruptionBudget " + one.Name + " has maxUnavailable: 60%",
				Field: "PodDisruptionBudget/" + one.Name + " spec.maxUnavailable", Change: suggest.ReasonBudget.Change,
			})
		}
		return testing.AllocsPerRun(1, func() { overview.Suggest(in) })
	}
	assert.Less(t, cost(1000), 2.5*cost(500))
}

func BenchmarkSuggest(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		in := many(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				overview.Suggest(in)
			}
		})
	}
}
