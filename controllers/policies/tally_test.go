// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/policies/registry"
	"berth.dev/berth/test/builders"
)

const namespace = "shop"

var began = time.Unix(1_750_000_000, 0)

// policy is one of an age in seconds that selects pods by a label such as app=web, all pods with "".
func policy(name string, age int, label string) *v1alpha1.SchedulingPolicy {
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(began.Add(-time.Duration(age) * time.Second)),
	}}
	if key, value, ok := strings.Cut(label, "="); ok {
		p.Spec.PodSelector.MatchLabels = map[string]string{key: value}
	}
	return p
}

func invalid(p *v1alpha1.SchedulingPolicy) *v1alpha1.SchedulingPolicy {
	p.Spec.Select = &v1alpha1.SelectRules{TieBreaker: "Coin"}
	return p
}

// inOrder are policies as the registry has them.
func inOrder(all ...*v1alpha1.SchedulingPolicy) []*registry.Policy {
	r := registry.New()
	for _, p := range all {
		r.Set(p)
	}
	return r.In(namespace)
}

// pods are pods with the same labels, in one map as in the cluster state.
func pods(n int, labels ...string) (list []*clusterstate.Pod) {
	set := map[string]string{}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		set[key] = value
	}
	for range n {
		list = append(list, &clusterstate.Pod{Namespace: namespace, Labels: set})
	}
	return list
}

func TestEachPodCountsForTheOldestPolicyThatSelectsIt(t *testing.T) {
	finished := pods(4, "app=web")
	for _, p := range finished {
		p.Finished = true
	}
	all := append(pods(3, "app=web"), pods(2, "app=web", "tier=batch")...)
	all = append(append(all, pods(1, "tier=batch")...), finished...)
	all = append(append(all, pods(5)...), &clusterstate.Pod{Namespace: namespace})
	for name, tc := range map[string]struct {
		policies []*v1alpha1.SchedulingPolicy
		want     map[string]string // "pods older"
	}{
		"no policy":                    {nil, map[string]string{}},
		"one that selects none":        {[]*v1alpha1.SchedulingPolicy{policy("a", 1, "app=db")}, map[string]string{"a": "0 "}},
		"one for all":                  {[]*v1alpha1.SchedulingPolicy{policy("a", 1, "")}, map[string]string{"a": "12 "}},
		"two that select other pods":   {[]*v1alpha1.SchedulingPolicy{policy("a", 1, "app=web"), policy("b", 2, "app=db")}, map[string]string{"a": "5 ", "b": "0 "}},
		"the older one has the pods":   {[]*v1alpha1.SchedulingPolicy{policy("a", 1, "app=web"), policy("b", 2, "tier=batch")}, map[string]string{"a": "3 b", "b": "3 "}},
		"the first by name of one age": {[]*v1alpha1.SchedulingPolicy{policy("b", 1, "app=web"), policy("a", 1, "app=web")}, map[string]string{"a": "5 ", "b": "0 a"}},
		"one in the shadow of two":     {[]*v1alpha1.SchedulingPolicy{policy("a", 1, ""), policy("c", 2, "tier=batch"), policy("b", 3, "app=web")}, map[string]string{"a": "6 b, c", "b": "5 ", "c": "1 b"}},
		"an invalid one has no pods":   {[]*v1alpha1.SchedulingPolicy{policy("a", 1, "app=web"), invalid(policy("b", 2, ""))}, map[string]string{"a": "5 ", "b": "0 "}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for name, u := range tally(inOrder(tc.policies...), all) {
				assert.Equal(t, name, u.policy.Object.Name)
				assert.False(t, u.tooMany)
				got[name] = fmt.Sprintf("%d %s", u.pods, u.older)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestAPolicyNamesFiveOlderOnes(t *testing.T) {
	var policies []*v1alpha1.SchedulingPolicy
	var all []*clusterstate.Pod
	for i := range 7 {
		label := fmt.Sprintf("app=%d", i)
		policies, all = append(policies, policy(fmt.Sprintf("p%d", i), i+1, label)), append(all, pods(1, label)...)
	}
	got := tally(inOrder(append(policies, policy("youngest", 0, ""))...), all)
	assert.Equal(t, "p6, p5, p4, p3, p2 and 2 more", got["youngest"].older, "the oldest first")
}

// The 101st policy governs nothing, until an older one is deleted.
func TestOnlyTheOldestPoliciesGovernPods(t *testing.T) {
	var policies []*v1alpha1.SchedulingPolicy
	for i := range registry.MaxPerNamespace {
		policies = append(policies, policy(fmt.Sprintf("old-%d", i), 10, "app=db"))
	}
	policies = append(policies, policy("young", 1, "app=web"), invalid(policy("youngest", 0, "app=web")))
	got := tally(inOrder(policies...), pods(3, "app=web"))
	assert.Len(t, got, registry.MaxPerNamespace+2)
	assert.False(t, got["old-99"].tooMany)
	for _, name := range []string{"young", "youngest"} {
		assert.True(t, got[name].tooMany, name)
		assert.Zero(t, got[name].pods, name)
	}
	got = tally(inOrder(policies[1:]...), pods(3, "app=web"))
	assert.False(t, got["young"].tooMany)
	assert.Equal(t, 3, got["young"].pods)
}

// What the statuses report is what the registry decides, which the scheduler uses.
func TestCountsAddUpToThePodsThatAPolicyGoverns(t *testing.T) {
	labels := []string{"", "app=web", "app=db", "tier=batch", "tier=web"}
	rapid.Check(t, func(t *rapid.T) {
		var policies []*v1alpha1.SchedulingPolicy
		for i := range rapid.SampledFrom([]int{0, 1, 3, 10, registry.MaxPerNamespace, registry.MaxPerNamespace + 20}).Draw(t, "policies") {
			p := policy(fmt.Sprintf("p%d", i), rapid.IntRange(0, 50).Draw(t, "age"), rapid.SampledFrom(labels[min(1, i%7):]).Draw(t, "selects"))
			if rapid.IntRange(0, 9).Draw(t, "invalid") == 0 {
				p = invalid(p)
			}
			policies = append(policies, p)
		}
		list := inOrder(policies...)
		var all []*clusterstate.Pod
		for range rapid.IntRange(0, 5).Draw(t, "sets") {
			set := rapid.SliceOfNDistinct(rapid.SampledFrom(labels[1:]), 0, 2, rapid.ID[string]).Draw(t, "labels")
			alike := pods(rapid.IntRange(0, 4).Draw(t, "pods"), set...)
			for _, p := range alike {
				p.Finished = rapid.Bool().Draw(t, "finished")
			}
			all = append(all, alike...)
		}
		governed, want := 0, map[string]int{}
		for _, p := range all {
			if g := registry.Governing(list, p.Labels); g != nil && !p.Finished {
				want[g.Object.Name]++
				governed++
			}
		}
		sum := 0
		got := tally(list, all)
		require.Len(t, got, len(policies))
		for _, p := range policies {
			s := compose(p, got[p.Name], began)
			require.EqualValues(t, want[p.Name], s.PodCount, p.Name)
			sum += int(s.PodCount)
		}
		require.Equal(t, governed, sum, "each pod counts once")
	})
}

// hostile has 10,000 policies and 10,000 pods, each with labels of its own. The policies that can govern pods select one pod each,
// the others all pods.
func hostile() (policies []*v1alpha1.SchedulingPolicy, all []*clusterstate.Pod) {
	for i := range 10_000 {
		label := fmt.Sprintf("app=%d", i)
		if i >= registry.MaxPerNamespace {
			label = ""
		}
		policies = append(policies, policy(fmt.Sprintf("p%05d", i), 20_000-i, label))
		all = append(all, pods(1, fmt.Sprintf("app=%d", i))...)
	}
	return policies, all
}

type fixedPods []*clusterstate.Pod

func (p fixedPods) AllPods(string) []*clusterstate.Pod { return p }

// mostHeap bounds what a namespace with 10,000 policies takes in addition to the objects, which the cache of the manager holds: its
// rules, selectors and counts. They take 3 MiB.
const mostHeap = 8 << 20

func TestTenThousandPoliciesOfANamespaceAreBounded(t *testing.T) {
	policies, all := hostile()
	before := builders.Heap()
	c := New(Options{Pods: fixedPods(all), Clock: clock.RealClock{}})
	for _, p := range policies {
		c.Set(p)
	}
	assert.Len(t, c.recount(namespace), len(policies))
	heap := int64(builders.Heap()) - int64(before)
	t.Logf("heap: %d KiB", heap>>10)
	assert.Less(t, heap, int64(mostHeap))
	assert.Empty(t, c.recount(namespace), "nothing has changed")
	sum, excess := 0, 0
	for _, u := range c.counted[namespace] {
		sum += u.pods
		if u.tooMany {
			excess++
		}
	}
	assert.Equal(t, registry.MaxPerNamespace, sum, "the others are not matched")
	assert.Equal(t, len(policies)-registry.MaxPerNamespace, excess)
	runtime.KeepAlive(policies)
}

func BenchmarkCountOfAHostileNamespace(b *testing.B) {
	policies, all := hostile()
	list := inOrder(policies...)
	for b.Loop() {
		tally(list, all)
	}
}
