// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

// drawWorkload draws facts. Most of those that block are rare, so that most workloads have a mix.
func drawWorkload(t *rapid.T) *Workload {
	rare := rapid.Custom(func(t *rapid.T) bool { return rapid.IntRange(0, 19).Draw(t, "rare") == 0 })
	seldom := func(name string, of func()) {
		if rapid.IntRange(0, 7).Draw(t, name) == 7 { // 0 is what rapid draws most
			of()
		}
	}
	n, unit := rapid.IntRange(1, 40).Draw(t, "replicas"), rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "unit")
	w := web(func(w *Workload) {
		w.Name = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		w.Replicas, w.Unit, w.Pods = n, unit, n*unit
		seldom("stateful", func() { w.Stateful = true })
		w.Pinned, w.Grouped, w.VolumesUnread, w.BudgetsUnread = rare.Draw(t, "pinned"), rare.Draw(t, "grouped"), rare.Draw(t, "volumes"), rare.Draw(t, "budgets")
		seldom("replaced", func() { w.Replaced = rapid.SampledFrom([]Replaced{ByUnknown, ByNobody}).Draw(t, "by") })
		w.RunsOnce = rare.Draw(t, "once")
		seldom("claim", func() { w.AttachedClaim = "data" })
		seldom("keep", func() { w.Keep = "karpenter.sh/do-not-disrupt" })
		seldom("priority", func() { w.Priority = rapid.SampledFrom([]int32{-5, 100, systemCritical}).Draw(t, "value") })
		seldom("restarts", func() { w.Restarts = rapid.SampledFrom([]int{3, 1000}).Draw(t, "count") })
		seldom("starts", func() {
			w.Starts = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second
			}), 0, 5).Draw(t, "each")
		})
		seldom("governed", func() { w.Governed = "default" })
		w.Budgets = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Budget { return drawBudget(t, w.Pods) }), 0, 1).Draw(t, "budget")
		w.Bands = []Band{{"m5.large", w.Pods, rapid.SampledFrom([]int{1, 1, 1, 2, 3, 0, 4, 5}).Draw(t, "band")}}
		w.Money = Money{Priced: rapid.IntRange(0, w.Pods).Draw(t, "priced"), Available: rapid.Float64Range(0, 9).Draw(t, "available")}
	})
	return w
}

func drawBudget(t *rapid.T, pods int) Budget {
	b := Budget{Name: "b", Workloads: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "workloads"), Pods: pods}
	if b.Workloads > 1 {
		b.Pods += rapid.IntRange(1, 50).Draw(t, "others")
	}
	a := Amount{Set: true, Percent: rapid.Bool().Draw(t, "percent"), Value: rapid.IntRange(0, 110).Draw(t, "value")}
	if rapid.Bool().Draw(t, "min") {
		b.MinAvailable = a
	} else {
		b.MaxUnavailable = a
	}
	return b
}

// missing is how many of a number of pods a budget allows to be missing, as the disruption controller counts.
func missing(b *Budget, pods int) int {
	up := func(percent int) int { return (pods*percent + 99) / 100 }
	switch a := b.MinAvailable; {
	case a.Set && a.Percent:
		return max(0, pods-up(a.Value))
	case a.Set:
		return max(0, pods-a.Value)
	case b.MaxUnavailable.Percent:
		return min(pods, up(b.MaxUnavailable.Value))
	}
	return b.MaxUnavailable.Value
}

// At any number of replicas: a workload is scaled after its mix was written. All spot nodes may go at once.
func TestPropertyNoMoreOnSpotThanTheBudgetAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		w.Budgets = []Budget{drawBudget(t, w.Pods)}
		w.Budgets[0].Workloads = 1
		s := Of(w)
		if s.Mix == nil {
			return
		}
		n := rapid.IntRange(1, 300).Draw(t, "scale")
		spot := s.Mix.Split().Spot(n) * w.Unit
		assert.LessOrEqual(t, spot, missing(&w.Budgets[0], n*w.Unit), "%+v of %d replicas with %+v", *s.Mix, n, w.Budgets[0])
	})
}

// Workloads that share a budget may lose their replicas at the same time, at the present number of replicas.
func TestPropertyWorkloadsShareWhatMayBeMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := drawBudget(t, 0)
		shared.Workloads, shared.Pods = rapid.IntRange(2, 4).Draw(t, "workloads"), 0
		list := make([]*Workload, shared.Workloads)
		for i := range list {
			n := rapid.IntRange(2, 20).Draw(t, "replicas")
			list[i] = web(func(w *Workload) { w.Replicas, w.Pods = n, n })
			shared.Pods += n
		}
		spot := 0
		for _, w := range list {
			w.Budgets = []Budget{shared}
			s := Of(w)
			spot += s.Spot
		}
		assert.LessOrEqual(t, spot, missing(&shared, shared.Pods), "%+v", shared)
	})
}

func TestPropertyAMixIsValidAndKeepsAReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		s := Of(w)
		blocked := len(s.With(Blocks)) > 0
		require.Equal(t, blocked, s.Mix == nil)
		if blocked {
			assert.Zero(t, s.Spot)
			assert.Nil(t, s.SavingPerMonth)
			assert.Nil(t, s.Selector)
			assert.Equal(t, Blocked, s.Risk)
			return
		}
		require.NoError(t, s.Mix.Split().Validate())
		assert.LessOrEqual(t, int(s.Mix.MinOnDemand), w.Replicas)
		assert.Positive(t, s.Spot)
		assert.Positive(t, s.OnDemand)
		assert.Equal(t, w.Replicas, s.Spot+s.OnDemand)
		for n := range 50 {
			assert.GreaterOrEqual(t, s.Mix.Split().OnDemand(n), min(n, 1), "of %d replicas", n)
		}
	})
}

func TestPropertyMoreReplicasRaiseNoRisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		before := Of(w)
		more := rapid.IntRange(1, 20).Draw(t, "more")
		w.Replicas, w.Pods = w.Replicas+more, w.Pods+more*w.Unit
		for i := range w.Budgets {
			w.Budgets[i].Pods += more * w.Unit
		}
		after := Of(w)
		assert.LessOrEqual(t, after.Risk.rank(), before.Risk.rank())
		assert.GreaterOrEqual(t, after.Spot, before.Spot)
	})
}

// What is found against a workload never has more of its replicas on spot nodes.
func TestPropertyAReasonNeverAddsSpotReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		before := Of(w)
		if before.Mix == nil {
			return // a cause could replace what blocks it
		}
		worst := []*Reason{ReasonStateful, ReasonAttachedVolume, ReasonUnknownOwner, ReasonVerySlowStart, ReasonHighPriority, ReasonVeryFrequent}
		c := rapid.SampledFrom(causes).Filter(func(c cause) bool { return slices.Contains(worst, c.reason) }).Draw(t, "cause")
		c.change(w)
		assert.LessOrEqual(t, Of(w).Spot, before.Spot, "%s", c.reason)
	})
}

func TestPropertyTheOrderDoesNotDependOnThatOfTheInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.Custom(drawWorkload), 2, 12).Draw(t, "workloads")
		var all []Suggestion
		for i, w := range drawn {
			w.Namespace = fmt.Sprint("n", i)
			all = append(all, Of(w))
		}
		other := append([]Suggestion{}, all...)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		for _, list := range [][]Suggestion{all, other} {
			Sort(list)
			Name(list, map[[2]string]bool{})
		}
		assert.Equal(t, all, other)
	})
}

func TestPropertyLabelsSelectWhatASelectorMatches(t *testing.T) {
	set := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2", "3"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		var l Labels
		all := rapid.SliceOfN(set, 0, 12).Draw(t, "sets")
		for _, s := range all {
			l.Add(s)
		}
		text := rapid.SampledFrom([]string{"a=1", "a in (1,2),b=3", "a", "!a", "a!=1,b=2", "", "a=9", "c notin (1)", "a=1,b=1,c=1"}).Draw(t, "selector")
		selector, err := labels.Parse(text)
		require.NoError(t, err)
		var want, got []int
		for i, s := range all {
			if selector.Matches(labels.Set(s)) {
				want = append(want, i)
			}
		}
		l.Selected(selector, func(i int) bool {
			got = append(got, i)
			return true
		})
		assert.Equal(t, want, got)
	})
}
