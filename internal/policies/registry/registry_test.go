// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// policy is one of the namespace shop that selects pods by the label app, created a number of seconds after 2026.
func policy(name, app string, created int) *v1alpha1.SchedulingPolicy {
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1,
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, created, 0, time.UTC)),
	}}
	p.Spec.PodSelector.MatchLabels = map[string]string{"app": app}
	return p
}

func pod(namespace, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": app}}}
}

func governs(r *Registry, p *corev1.Pod) string {
	if governing := r.For(p); governing != nil {
		return governing.Object.Name
	}
	return ""
}

func TestTheOldestPolicyGoverns(t *testing.T) {
	t.Parallel()
	r := New()
	assert.True(t, r.Set(policy("young", "web", 20)))
	assert.True(t, r.Set(policy("old", "web", 10)))
	assert.True(t, r.Set(policy("as-old", "web", 10)))
	assert.Equal(t, "as-old", governs(r, pod("shop", "web")), "the first by name of those that are as old")
	assert.Empty(t, governs(r, pod("shop", "db")))
	assert.Empty(t, governs(r, pod("other", "web")), "a policy governs pods of its namespace")

	r.Delete("shop", "as-old")
	assert.Equal(t, "old", governs(r, pod("shop", "web")))
	r.Delete("shop", "old")
	r.Delete("shop", "young")
	r.Delete("shop", "young")
	assert.Empty(t, governs(r, pod("shop", "web")))
	assert.Empty(t, r.In("shop"))
}

func TestAnEmptySelectorSelectsEveryPod(t *testing.T) {
	t.Parallel()
	p := policy("all", "", 0)
	p.Spec.PodSelector = v1alpha1.PodSelector{}
	r := New()
	r.Set(p)
	assert.Equal(t, "all", governs(r, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}))
}

func TestANewGenerationReplacesTheRules(t *testing.T) {
	t.Parallel()
	r := New()
	first := policy("a", "web", 0)
	r.Set(first)
	status := first.DeepCopy()
	status.Status.PodCount = 3
	assert.False(t, r.Set(status), "a status changes no rules")
	next := first.DeepCopy()
	next.Generation, next.Spec.Select = 2, &v1alpha1.SelectRules{TieBreaker: v1alpha1.TieBreakerName}
	assert.True(t, r.Set(next))
	assert.Equal(t, v1alpha1.TieBreakerName, r.For(pod("shop", "web")).Rules.TieBreaker)
	again := first.DeepCopy()
	again.UID = "another"
	assert.True(t, r.Set(again), "an object of the same name that was created again")
}

func TestAnInvalidPolicyGovernsNoPod(t *testing.T) {
	t.Parallel()
	r := New()
	invalid := policy("invalid", "web", 0)
	invalid.Spec.Score = &v1alpha1.ScoreRules{Preset: "Fast"}
	r.Set(invalid)
	r.Set(policy("valid", "web", 1))
	assert.Equal(t, "valid", governs(r, pod("shop", "web")))
	assert.ErrorContains(t, r.In("shop")[0].Err, `spec.score.preset: "Fast" is not supported`)
}

func TestOnlyTheOldestOfManyPoliciesGovern(t *testing.T) {
	t.Parallel()
	r := New()
	for i := range MaxPerNamespace {
		r.Set(policy(fmt.Sprint("p", i), "other", i))
	}
	r.Set(policy("one-too-many", "web", MaxPerNamespace))
	assert.Empty(t, governs(r, pod("shop", "web")))
	r.Delete("shop", "p0")
	assert.Equal(t, "one-too-many", governs(r, pod("shop", "web")))
}

// Whatever the order of the events, the registry answers as a scan of all policies does.
func TestTheOrderOfEventsDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		now := map[string]*v1alpha1.SchedulingPolicy{}
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")
			if rapid.Bool().Draw(t, "delete") {
				r.Delete("shop", name)
				delete(now, name)
				continue
			}
			p := policy(name, rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app"), rapid.IntRange(0, 3).Draw(t, "created"))
			p.Generation = int64(rapid.IntRange(1, 1000).Draw(t, "generation"))
			if known := now[name]; known != nil && known.Generation == p.Generation {
				continue
			}
			r.Set(p)
			now[name] = p
		}
		for _, app := range []string{"web", "db", "none"} {
			var all []*Policy
			for _, p := range now {
				all = append(all, Compile(p))
			}
			slices.SortFunc(all, Oldest)
			want := ""
			if p := Governing(all, map[string]string{"app": app}); p != nil {
				want = p.Object.Name
			}
			require.Equal(t, want, governs(r, pod("shop", app)))
		}
	})
}

func BenchmarkForWithoutPolicies(b *testing.B) {
	r := New()
	r.Set(policy("a", "web", 0))
	p := pod("other", "web")
	b.ReportAllocs()
	for b.Loop() {
		if r.For(p) != nil {
			b.Fatal("governed")
		}
	}
}

// A registry of a list governs pods as one to which all policies are added, and compiles no more of a namespace than can govern pods.
func TestARegistryOfAListHasThePoliciesThatGovern(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var objects []*v1alpha1.SchedulingPolicy
		all := New()
		for i := range rapid.SampledFrom([]int{0, 3, MaxPerNamespace, MaxPerNamespace + 30}).Draw(t, "policies") {
			p := policy(fmt.Sprint("p", i), rapid.SampledFrom([]string{"web", "db", "never"}).Draw(t, "app"), rapid.IntRange(0, 50).Draw(t, "created"))
			p.Namespace = rapid.SampledFrom([]string{"shop", "shop", "bank"}).Draw(t, "namespace")
			objects = append(objects, p)
			all.Set(p)
		}
		r := Of(objects)
		for _, namespace := range []string{"shop", "bank", "other"} {
			require.LessOrEqual(t, len(r.In(namespace)), MaxPerNamespace)
			for _, app := range []string{"web", "db", "other"} {
				require.Equal(t, governs(all, pod(namespace, app)), governs(r, pod(namespace, app)))
			}
		}
	})
}
