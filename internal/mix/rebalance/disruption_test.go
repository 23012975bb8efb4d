// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/rebalance"
)

// pdb selects app=web, and is observed at generation 2: 4 pods, 4 healthy, 3 needed, 1 may go.
func pdb(changes ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	p := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Generation: 2},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 2, DisruptionsAllowed: 1, CurrentHealthy: 4, DesiredHealthy: 3, ExpectedPods: 4,
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func named(name string) func(*policyv1.PodDisruptionBudget) {
	return func(p *policyv1.PodDisruptionBudget) { p.Name = name }
}

func selector(s *metav1.LabelSelector) func(*policyv1.PodDisruptionBudget) {
	return func(p *policyv1.PodDisruptionBudget) { p.Spec.Selector = s }
}

func figures(allowed, healthy, desired, expected int32) func(*policyv1.PodDisruptionBudget) {
	return func(p *policyv1.PodDisruptionBudget) {
		p.Status.DisruptionsAllowed, p.Status.CurrentHealthy = allowed, healthy
		p.Status.DesiredHealthy, p.Status.ExpectedPods = desired, expected
	}
}

func unhealthy(policy policyv1.UnhealthyPodEvictionPolicyType) func(*policyv1.PodDisruptionBudget) {
	return func(p *policyv1.PodDisruptionBudget) { p.Spec.UnhealthyPodEvictionPolicy = &policy }
}

func unobserved(p *policyv1.PodDisruptionBudget) { p.Generation = 3 }

func TestDisruptable(t *testing.T) {
	type pdbs = []*policyv1.PodDisruptionBudget
	web, none := map[string]string{"app": "web", "tier": "front"}, map[string]string(nil)
	always, ifHealthy := unhealthy(policyv1.AlwaysAllow), unhealthy(policyv1.IfHealthyBudget)
	tests := map[string]struct {
		pdbs        pdbs
		labels      map[string]string
		notReady    bool
		wantReason  *rebalance.Reason // nil for a pod that may go
		wantMessage string
	}{
		"no budgets":                         {nil, web, false, nil, ""},
		"a budget that allows one":           {pdbs{pdb()}, web, false, nil, ""},
		"a budget of other pods":             {pdbs{pdb(figures(0, 3, 3, 4))}, map[string]string{"app": "db"}, false, nil, ""},
		"no selector selects nothing":        {pdbs{pdb(figures(0, 3, 3, 4), selector(nil))}, web, false, nil, ""},
		"no selector, no labels":             {pdbs{pdb(figures(0, 3, 3, 4), selector(nil))}, none, false, nil, ""},
		"an empty selector selects the pod":  {pdbs{pdb(figures(0, 3, 3, 4), selector(&metav1.LabelSelector{}))}, web, false, rebalance.ReasonPDB, `PodDisruptionBudget "web" allows 0 disruptions: 3 of 4 pods are healthy and it needs 3`},
		"even without labels":                {pdbs{pdb(figures(0, 3, 3, 4), selector(&metav1.LabelSelector{}))}, none, false, rebalance.ReasonPDB, `"web" allows 0`},
		"a budget that allows none":          {pdbs{pdb(figures(0, 3, 3, 4))}, web, false, rebalance.ReasonPDB, `PodDisruptionBudget "web" allows 0 disruptions: 3 of 4 pods are healthy and it needs 3`},
		"a budget that can not allow any":    {pdbs{pdb(figures(0, 4, 4, 4))}, web, false, rebalance.ReasonPDB, `4 of 4 pods are healthy and it needs 4, which is all of them, so waiting does not help`},
		"a negative figure allows none":      {pdbs{pdb(figures(-1, 3, 3, 4))}, web, false, rebalance.ReasonPDB, `"web" allows -1 disruptions`},
		"an unseen change blocks":            {pdbs{pdb(unobserved)}, web, false, rebalance.ReasonPDB, `PodDisruptionBudget "web" has changed, and its controller has not seen the change yet: 1 disruption allowed is an old figure`},
		"two budgets":                        {pdbs{pdb(named("b")), pdb(named("a"))}, web, false, rebalance.ReasonOverlappingPDBs, "2 PodDisruptionBudgets select the pod (a, b), and the eviction API refuses pods of more than one"},
		"two budgets, pod not ready":         {pdbs{pdb(always), pdb(named("a"), always)}, web, true, rebalance.ReasonOverlappingPDBs, "(a, web)"},
		"five budgets":                       {pdbs{pdb(named("e")), pdb(named("d")), pdb(named("c")), pdb(named("b")), pdb(named("a"))}, web, false, rebalance.ReasonOverlappingPDBs, "5 PodDisruptionBudgets select the pod (a, b, c and 2 more)"},
		"a second budget of other pods":      {pdbs{pdb(), pdb(selector(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}))}, web, false, nil, ""},
		"not ready, AlwaysAllow":             {pdbs{pdb(figures(0, 1, 3, 4), always)}, web, true, nil, ""},
		"not ready, AlwaysAllow, unseen":     {pdbs{pdb(figures(0, 1, 3, 4), always, unobserved)}, web, true, nil, ""},
		"ready, AlwaysAllow":                 {pdbs{pdb(figures(0, 3, 3, 4), always)}, web, false, rebalance.ReasonPDB, "allows 0"},
		"not ready, enough others":           {pdbs{pdb(figures(0, 3, 3, 4))}, web, true, nil, ""},
		"not ready, enough others, explicit": {pdbs{pdb(figures(0, 3, 3, 4), ifHealthy)}, web, true, nil, ""},
		"not ready, too few others":          {pdbs{pdb(figures(0, 2, 3, 4), ifHealthy)}, web, true, rebalance.ReasonPDB, "2 of 4 pods are healthy and it needs 3"},
		"not ready, nothing known":           {pdbs{pdb(figures(0, 0, 0, 0))}, web, true, rebalance.ReasonPDB, `PodDisruptionBudget "web" allows 0 disruptions`},
		"not ready, unseen":                  {pdbs{pdb(figures(0, 3, 3, 4), unobserved)}, web, true, rebalance.ReasonPDB, "has not seen the change"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var budgets []rebalance.DisruptionBudget
			for _, p := range tc.pdbs {
				b, err := rebalance.FromPDB(p)
				require.NoError(t, err)
				budgets = append(budgets, b)
			}
			v := rebalance.Disruptable(budgets, tc.labels, !tc.notReady)
			assert.Equal(t, tc.wantReason, v.Reason)
			assert.Contains(t, v.Message, tc.wantMessage)
			assert.Equal(t, v.Reason == nil, v.Message == "")
		})
	}
}

// A reconcile that evicts two pods does not attempt what the first eviction made impossible.
func TestAnEvictionIsSpentFromItsBudget(t *testing.T) {
	budgets := []rebalance.DisruptionBudget{
		{Name: "web", Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Allowed: 1, Observed: true},
		{Name: "db", Selector: labels.SelectorFromSet(labels.Set{"app": "db"}), Allowed: 1, Observed: true},
	}
	web := map[string]string{"app": "web"}
	after := rebalance.Spend(budgets, web, true)
	require.Equal(t, rebalance.ReasonPDB, rebalance.Disruptable(after, web, true).Reason)
	require.Zero(t, rebalance.Disruptable(after, map[string]string{"app": "db"}, true))
	require.Equal(t, int32(1), budgets[0].Allowed, "what was read stays")
	require.Equal(t, int32(1), rebalance.Spend(budgets, web, false)[0].Allowed, "the eviction API counts ready pods")
	require.Zero(t, rebalance.Spend(after, web, true)[0].Allowed)
}

func TestDisruptableWithoutASelector(t *testing.T) {
	assert.Zero(t, rebalance.Disruptable([]rebalance.DisruptionBudget{{Name: "zero", Observed: true}}, map[string]string{"a": "b"}, true))
}

func TestFromPDB(t *testing.T) {
	b, err := rebalance.FromPDB(pdb(unhealthy(policyv1.AlwaysAllow)))
	require.NoError(t, err)
	assert.Equal(t, rebalance.DisruptionBudget{
		Name: "web", Generation: 2, Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Allowed: 1, Observed: true,
		UnhealthyAlwaysAllow: true, Healthy: 4, Desired: 3, Expected: 4,
	}, b)

	_, err = rebalance.FromPDB(pdb(selector(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like", Values: []string{"w*"}}},
	})))
	require.ErrorContains(t, err, "selector of PodDisruptionBudget shop/web: ")
}

// evictionAPI is what the eviction subresource of Kubernetes 1.37 answers for a running pod
// (pkg/registry/core/pod/storage/eviction.go): 200, 429, 403 or 500.
func evictionAPI(pdbs []*policyv1.PodDisruptionBudget, podLabels map[string]string, ready bool) int {
	var matching []*policyv1.PodDisruptionBudget
	for _, p := range pdbs {
		if s, err := metav1.LabelSelectorAsSelector(p.Spec.Selector); err == nil && s.Matches(labels.Set(podLabels)) {
			matching = append(matching, p)
		}
	}
	if len(matching) > 1 {
		return 500
	}
	if len(matching) == 0 {
		return 200
	}
	p := matching[0]
	if !ready && p.Spec.UnhealthyPodEvictionPolicy != nil && *p.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow {
		return 200
	}
	if !ready && p.Status.CurrentHealthy >= p.Status.DesiredHealthy && p.Status.DesiredHealthy > 0 {
		return 200
	}
	switch {
	case p.Status.ObservedGeneration < p.Generation:
		return 429
	case p.Status.DisruptionsAllowed < 0:
		return 403
	case p.Status.DisruptionsAllowed == 0:
		return 429
	}
	return 200
}

// What Disruptable allows, the API server grants; what it refuses, the API server refuses too, unless the figures are
// stale: then Disruptable waits where the API server would let a pod that is not ready go.
func TestDisruptableAgreesWithTheEvictionAPI(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labelSets := rapid.SampledFrom([]map[string]string{nil, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}})
		small := rapid.Int32Range(-1, 4)
		var pdbs []*policyv1.PodDisruptionBudget
		var budgets []rebalance.DisruptionBudget
		anyStale := false
		for i := range rapid.IntRange(0, 3).Draw(t, "pdbs") {
			p := pdb(named(fmt.Sprint("pdb-", i)),
				figures(small.Draw(t, "allowed"), small.Draw(t, "healthy"), small.Draw(t, "desired"), small.Draw(t, "expected")))
			p.Status.ObservedGeneration = rapid.Int64Range(1, 2).Draw(t, "observed")
			anyStale = anyStale || p.Status.ObservedGeneration < p.Generation
			if rapid.Bool().Draw(t, "noSelector") {
				p.Spec.Selector = nil
			} else {
				p.Spec.Selector.MatchLabels = labelSets.Draw(t, "selector")
			}
			if policy := rapid.SampledFrom([]string{"", "AlwaysAllow", "IfHealthyBudget"}).Draw(t, "policy"); policy != "" {
				unhealthy(policyv1.UnhealthyPodEvictionPolicyType(policy))(p)
			}
			b, err := rebalance.FromPDB(p)
			require.NoError(t, err)
			pdbs, budgets = append(pdbs, p), append(budgets, b)
		}
		podLabels, ready := labelSets.Draw(t, "labels"), rapid.Bool().Draw(t, "ready")
		v := rebalance.Disruptable(budgets, podLabels, ready)
		ok := v.Reason == nil
		code := evictionAPI(pdbs, podLabels, ready)
		if ok || ready || !anyStale {
			assert.Equal(t, code == 200, ok, "the API answers %d", code)
		}
		assert.Equal(t, code == 500, v.Reason == rebalance.ReasonOverlappingPDBs)
		if !ok {
			assert.True(t, strings.Contains(v.Message, "pdb-"), "the message names the budget")
		}
	})
}
