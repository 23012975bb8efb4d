// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// Karpenter writes the costs of pods once a minute, as long as anything changes.
func TestACostThatWasRightForSomeTimeIsRestoredAtOnce(t *testing.T) {
	cost := map[string]string{costKey: "-2"}
	for name, tc := range map[string]struct {
		every  time.Duration
		want   map[string]string
		writes int
		longer bool
	}{
		"each minute, for an hour":                 {time.Minute, cost, 60, false},
		"as often as is restored at once":          {heldFor, cost, 240, false},
		"more often":                               {heldFor - time.Second, cost, 8, true},
		"the slot as well, which Karpenter leaves": {time.Minute, map[string]string{costKey: "-2", slotKey: "2"}, 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, writes, undone := newContest(), 0, true
			overwrite := noon
			for now := noon; now.Before(noon.Add(time.Hour)); now = now.Add(time.Second) {
				if !now.Before(overwrite) {
					undone, overwrite = true, overwrite.Add(tc.every)
				}
				if !undone {
					continue
				}
				c.overwritten("uid", now)
				if at, before := c.allow("uid", tc.want, now); !at.After(now) {
					c.note("uid", tc.want, before, now)
					writes, undone = writes+1, false
				}
			}
			if tc.longer {
				assert.LessOrEqual(t, writes, tc.writes, "a client that undoes more has Berth write less and less")
				return
			}
			assert.Equal(t, tc.writes, writes)
		})
	}
}

// One repair a minute for each replica is just enough. What is restored late is overwritten soon after, and is not mistaken for a conflict.
func TestCostsAreRestoredWithOneRepairAMinuteForEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const replicas = 30
		c, rate := newContest(), newCostRate(replicas)
		phase := time.Duration(rapid.IntRange(0, 59).Draw(t, "phase")) * time.Second
		lag := rapid.IntRange(1, 20).Draw(t, "seconds between two attempts")
		wrong, worst := map[int]int{}, 0
		for second := range 3600 {
			now := noon.Add(time.Duration(second) * time.Second)
			for i := replicas - 1; i >= 0; i-- {
				uid, want := types.UID(strconv.Itoa(i)), map[string]string{costKey: governing.DeletionCost(i)}
				if now.Sub(noon)%time.Minute == phase || wrong[i] > 0 {
					wrong[i]++
					worst = max(worst, wrong[i])
					c.overwritten(uid, now)
				}
				if wrong[i] == 0 || (second+i)%lag != 0 {
					continue
				}
				at, undone := c.allow(uid, want, now)
				if at.After(now) {
					continue
				}
				if ok, _ := rate.allow("shop", now); ok {
					require.Less(t, undone, contestedAfter, "no AnnotationConflict is recorded")
					c.note(uid, want, undone, now)
					delete(wrong, i)
				}
			}
		}
		require.LessOrEqual(t, worst, 120, "seconds in which a cost is wrong")
	})
}

func TestACostThatWasHeldEndsTheBackOff(t *testing.T) {
	c, cost, now := newContest(), map[string]string{costKey: "-2"}, noon
	c.note("uid", cost, 0, now)
	for i, delay := range []time.Duration{firstDelay, 2 * firstDelay} {
		seen := now.Add(heldFor - time.Second)
		c.overwritten("uid", seen)
		at, undone := c.allow("uid", cost, seen)
		require.Equal(t, []any{seen.Add(delay), i + 1}, []any{at, undone}, "the delay begins when the cost is seen to be wrong")
		now = at
		c.note("uid", cost, undone, now)
	}
	now = now.Add(heldFor)
	c.overwritten("uid", now)
	at, undone := c.allow("uid", cost, now)
	require.Equal(t, []any{now, 0}, []any{at, undone})
	c.note("uid", cost, undone, now)
	c.overwritten("uid", now.Add(time.Second))
	_, undone = c.allow("uid", cost, now.Add(time.Second))
	require.Equal(t, 1, undone, "it begins again")
}

// costsOf is staleEntry of which only the deletion cost of each replica differs.
func costsOf(cost func(slot int) string) rebalance.Entry {
	e := staleEntry()
	for _, s := range e.Group.Assignments[:3] {
		s.Pod.Annotations = annotationsOf(s.Slot, s.Wants)
		s.Pod.Annotations[costKey] = cost(s.Slot)
	}
	return e
}

func rank(int) string { return "-9" }

// costly is a controller of a workload with costs that another client overwrites.
type costly struct {
	*Controller
	kube  *fake.Clientset
	clock *clocktesting.FakePassiveClock
}

func newCostly(t *testing.T, perMinute int) *costly {
	t.Helper()
	r, kube := reconciler(perMinute)
	c := &costly{r, kube, r.Clock.(*clocktesting.FakePassiveClock)}
	c.overwrite(t)
	c.Workloads.Put(costsOf(rank))
	c.note(decided())
	return c
}

// overwrite has another client overwrite the costs.
func (c *costly) overwrite(t *testing.T) {
	t.Helper()
	for _, s := range costsOf(rank).Group.Assignments[:3] {
		pod, err := c.kube.CoreV1().Pods("shop").Get(t.Context(), s.Pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		pod.Annotations = s.Pod.Annotations
		require.NoError(t, c.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, "shop"))
	}
}

// The watch shows a repair some time after it was made.
func TestARecordThatIsOlderThanTheRepairIsNoConflict(t *testing.T) {
	c := newCostly(t, 1000)
	require.Zero(t, c.repair(t.Context(), "shop"))
	require.Len(t, patches(c.kube), 3)
	c.clock.SetTime(noon.Add(time.Second))
	c.note(decided()) // of the costs that were there before
	require.Zero(t, c.repair(t.Context(), "shop"))
	require.Len(t, patches(c.kube), 3)
	require.Zero(t, c.contest.wrongSince("web-0"))

	c.clock.SetTime(noon.Add(time.Minute))
	c.overwrite(t)
	c.note(decided())
	require.Zero(t, c.repair(t.Context(), "shop"), "the costs were right for long enough")
	require.Len(t, patches(c.kube), 6)

	c.clock.SetTime(noon.Add(time.Minute + time.Second))
	c.overwrite(t)
	c.note(decided())
	require.Equal(t, firstDelay, c.repair(t.Context(), "shop"), "they were read from the API server")
	require.Len(t, patches(c.kube), 6)
	require.Equal(t, c.clock.Now(), c.contest.wrongSince("web-0"))

	c.Workloads.Put(costsOf(governing.DeletionCost))
	c.note(decided())
	require.Zero(t, c.contest.wrongSince("web-0"), "someone else has made them right")
}

func TestTheHighestSlotIsRestoredFirst(t *testing.T) {
	c := newCostly(t, 2)
	require.Equal(t, costWindow, c.repair(t.Context(), "shop"))
	var wrote []string
	for _, p := range patches(c.kube) {
		wrote = append(wrote, p["metadata"].(map[string]any)["annotations"].(map[string]any)[costKey].(string))
	}
	require.Equal(t, []string{"-2", "-1"}, wrote)
}

func TestRestoredCostsLeaveTheRateOfRepairsAlone(t *testing.T) {
	c := newCostly(t, 60)
	before := c.repairs.Tokens()
	require.Zero(t, c.repair(t.Context(), "shop"))
	require.Len(t, patches(c.kube), 3)
	require.InDelta(t, before, c.repairs.Tokens(), 0.9)
}

// A client rewrites the costs of one namespace all the time.
func TestANamespaceTakesNoRestoredCostsFromOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		others := rapid.IntRange(1, 5).Draw(t, "other namespaces")
		perMinute := rapid.IntRange(others+1, 100).Draw(t, "rate")
		needs := rapid.IntRange(1, perMinute/(others+1)).Draw(t, "needed by each")
		c := newCostRate(perMinute)
		for minute := range 4 {
			now, taken, all := noon.Add(time.Duration(minute)*time.Minute), map[int]int{}, 0
			greedy := func() {
				for ok := true; ok; {
					if ok, _ = c.allow("greedy", now); ok {
						all++
					}
				}
			}
			greedy()
			for i := range needs * others {
				if ok, _ := c.allow(strconv.Itoa(i%others), now.Add(time.Second)); ok {
					taken[i%others]++
					all++
				}
			}
			greedy()
			require.LessOrEqual(t, all, perMinute)
			for i := range others {
				if minute > 0 {
					require.Equal(t, needs, taken[i], "of namespace %d in minute %d", i, minute)
				}
			}
			if minute > 1 {
				require.Equal(t, perMinute, all, "nothing is wasted")
			}
		}
	})
}

func TestANamespaceUsesWhatOthersDoNotNeed(t *testing.T) {
	c := newCostRate(60)
	for minute := range 3 {
		now := noon.Add(time.Duration(minute) * time.Minute)
		ok, _ := c.allow("small", now)
		require.True(t, ok)
		for range 59 {
			ok, _ = c.allow("large", now)
			require.True(t, ok)
		}
		ok, next := c.allow("large", now)
		require.False(t, ok)
		require.Equal(t, now.Add(time.Minute), next)
	}
}

func TestRepairsAreRememberedAsLongAsThePodsAreThere(t *testing.T) {
	c := newCostly(t, 1000)
	for i := range 10_000 {
		c.contest.note(types.UID("gone-"+strconv.Itoa(i)), map[string]string{costKey: "-1"}, 0, noon)
	}
	require.Zero(t, c.repair(t.Context(), "shop"))
	_, undone := c.contest.allow("gone-0", map[string]string{costKey: "-1"}, noon)
	require.Equal(t, 1, undone, "however many there are")
	c.contest.sweep(c.Workloads, c.clock.Now())
	c.contest.sweep(c.Workloads, noon.Add(sweepEvery))
	require.Len(t, c.contest.pods, 3)
}
