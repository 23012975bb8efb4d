// SPDX-License-Identifier: Apache-2.0

package nodesample

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/mix/capacity"
)

func TestTheCacheKeepsTheBestThatWereNotRejected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &cache{}
		by := rapid.SampledFrom([]config.RankSampleBy{config.RankSampleByLeastAllocated, config.RankSampleByMostAllocated}).Draw(t, "by")
		n := rapid.IntRange(1, 20).Draw(t, "n")
		rejected := sets.New[string]()
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			all := make([]candidate, rapid.IntRange(0, 60).Draw(t, "candidates"))
			for i := range all {
				all[i] = candidate{name: fmt.Sprint("node-", i), free: rapid.Int64Range(0, 30).Draw(t, "free")}
			}
			m.replace(all, n, by)

			allowed := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return rejected.Has(c.name) })
			require.Len(t, m.best, min(n, len(allowed)))
			require.Equal(t, len(m.best), sets.New(m.best...).Len())
			require.False(t, rejected.HasAny(m.best...))
			worst := func(in func(candidate) bool, sign int64) (least int64) {
				least = 1 << 40
				for _, c := range allowed {
					if in(c) {
						least = min(least, sign*c.free)
					}
				}
				return least
			}
			sign := int64(1)
			if by == config.RankSampleByMostAllocated {
				sign = -1
			}
			kept := func(c candidate) bool { return slices.Contains(m.best, c.name) }
			for _, c := range allowed {
				require.True(t, kept(c) || sign*c.free <= worst(kept, sign), "%s with %d was not kept", c.name, c.free)
			}

			again := sets.New(m.best[:rapid.IntRange(0, len(m.best)).Draw(t, "rejected")]...)
			if rejected.Union(again).Len() <= len(m.rejected) { // as many are kept
				m.reject(again)
				rejected = rejected.Union(again)
				require.False(t, rejected.HasAny(m.best...), "at once")
			}
		}
	})
}

func TestRejectedNodesLeaveTheCacheOfTheirType(t *testing.T) {
	s := NewSampler(nil, 4, config.RankSampleByLeastAllocated, SpreadWeight, "")
	s.caches[capacity.Spot].best, s.caches[capacity.OnDemand].best = []string{"a", "b"}, []string{"a"}
	s.Reject(capacity.Spot, sets.New("a"))
	assert.Equal(t, []string{"b"}, s.caches[capacity.Spot].best)
	assert.Equal(t, []string{"a"}, s.caches[capacity.OnDemand].best)
}

// A packed node on which a large pod does not fit is nearly full, and the best one for the next small pod.
func TestPackedNodesStayCachedForSomePodsThatDoNotFit(t *testing.T) {
	m := &cache{}
	all := make([]candidate, 8)
	for i := range all {
		all[i] = candidate{name: fmt.Sprint(i), free: int64(i)}
	}
	for range maxMissed {
		require.True(t, m.miss("full"))
		m.keep([]string{"full"}, all, 4, config.RankSampleByMostAllocated)
		require.Equal(t, []string{"0", "1", "2", "full"}, m.best)
	}
	require.False(t, m.miss("full"))
	require.Empty(t, m.missed, "it has a new start")
	m.keep([]string{"a", "b"}, all, 2, config.RankSampleByMostAllocated)
	require.Equal(t, []string{"a", "b"}, m.best, "no more than there may be")
}

func TestOldRejectionsAreReplacedByNewOnes(t *testing.T) {
	m := &cache{}
	all := make([]candidate, 100)
	for i := range all {
		all[i].name = fmt.Sprint(i)
		m.reject(sets.New(all[i].name))
		m.reject(sets.New(all[i].name)) // counts once
	}
	m.replace(all, 100, config.RankSampleByLeastAllocated)
	assert.Len(t, m.best, 36)
	assert.Contains(t, m.best, "35")
	assert.NotContains(t, m.best, "36")
}

func TestFinalistsAreTheHighestRankedAndTheFirstOfEqualOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		all := make([]candidate, n)
		var least crowding
		for i := range all {
			k := crowding{domain: rapid.Int32Range(0, 3).Draw(t, "domain"), zone: rapid.Int32Range(0, 3).Draw(t, "zone"), host: rapid.Int32Range(0, 1).Draw(t, "host")}
			if all[i] = (candidate{name: fmt.Sprint(i), crowding: k, free: rapid.Int64Range(0, 10_000).Draw(t, "free")}); i == 0 {
				least = k
			}
			least = least.min(k)
		}
		by, sign := config.RankSampleByLeastAllocated, int64(1)
		if rapid.Bool().Draw(t, "pack") {
			by, sign = config.RankSampleByMostAllocated, -1
		}
		value := func(c candidate) int64 { return 300*c.crowding.score(least) + sign*c.free }
		best := (&Sampler{rankBy: by, spreadWeight: SpreadWeight}).finalists(slices.Clone(all), least)
		require.Len(t, best, min(n, max(4, n/8)))
		in := map[string]bool{}
		worst := value(best[0])
		for _, c := range best {
			in[c.name] = true
			worst = min(worst, value(c))
		}
		require.Len(t, in, len(best))
		if len(best) == n {
			return
		}
		for _, c := range all {
			require.True(t, in[c.name] || value(c) <= worst, "%s was left out with %d, the worst has %d", c.name, value(c), worst)
		}
	})
}

// The short way to what a pod requests comes to the same as the library's.
func TestRequestsAreThoseOfTheLibrary(t *testing.T) {
	quantities := func(t *rapid.T, name string) corev1.ResourceList {
		r := corev1.ResourceList{}
		if rapid.Bool().Draw(t, name+" has cpu") {
			r[corev1.ResourceCPU] = *resource.NewMilliQuantity(rapid.Int64Range(0, 5000).Draw(t, name+" cpu"), resource.DecimalSI)
		}
		if rapid.Bool().Draw(t, name+" has memory") {
			r[corev1.ResourceMemory] = *resource.NewQuantity(rapid.Int64Range(0, 1<<35).Draw(t, name+" memory"), resource.BinarySI)
		}
		return r
	}
	containers := func(t *rapid.T, name string) (list []corev1.Container) {
		for range rapid.IntRange(0, 3).Draw(t, name) {
			list = append(list, corev1.Container{Resources: corev1.ResourceRequirements{Requests: quantities(t, name)}})
		}
		return list
	}
	rapid.Check(t, func(t *rapid.T) {
		p := &corev1.Pod{}
		p.Spec.Containers = containers(t, "container")
		if rapid.Bool().Draw(t, "init") {
			p.Spec.InitContainers = containers(t, "init container")
		}
		if rapid.Bool().Draw(t, "overhead") {
			p.Spec.Overhead = quantities(t, "overhead")
		}
		if rapid.Bool().Draw(t, "pod level") {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities(t, "pod")}
		}
		want := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
		cpu, memory := requests(p)
		require.Equal(t, want.Cpu().MilliValue(), cpu)
		require.Equal(t, want.Memory().Value(), memory)
	})
}
