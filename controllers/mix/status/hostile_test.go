// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/test/perf/bench"
)

const (
	// mostStatus is the size of a status that is full: 50 workloads with messages of 1 kB. etcd takes objects of 1.5 MB.
	mostStatus = 256 << 10
	// mostAllocated and mostTime bound what one status costs, with a factor for the race detector and a busy machine.
	mostAllocated, mostTime = 64 << 20, 5 * time.Second
)

// checkStatus composes the status of a mix, and shows the metrics, within the budgets.
func checkStatus(t testing.TB, invalid error, mine []rebalance.Entry, others []string) v1alpha1.CapacityMixStatus {
	t.Helper()
	b := workloads.NewStore()
	for _, e := range mine {
		b.Put(e)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := bench.ProcessorTime()
	s := compose(mixOf(), invalid, mine, others, &autoscaler.Found{Karpenter: true, ClusterAutoscaler: true}, nil, noon)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&Collector{Workloads: b, Clock: clocktesting.NewFakePassiveClock(noon)})
	_, err := registry.Gather()
	took := bench.ProcessorTime() - began
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(mostAllocated), "bytes allocated")
	require.Less(t, took, mostTime)

	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Less(t, len(text), mostStatus, "bytes of the status")
	require.LessOrEqual(t, len(s.Workloads), v1alpha1.MaxStatusWorkloads)
	for _, c := range s.Conditions {
		require.LessOrEqual(t, len(c.Message), maxMessage)
		require.True(t, utf8.ValidString(c.Message))
	}
	for _, w := range s.Workloads {
		require.LessOrEqual(t, len(w.Name), maxName)
		require.LessOrEqual(t, len(w.Revision), maxName)
		require.LessOrEqual(t, len(w.Kind), maxKind)
	}
	for _, split := range []*v1alpha1.ReplicaSplit{s.Desired, s.Actual} {
		require.GreaterOrEqual(t, min(split.Spot, split.OnDemand, split.Unknown), int32(0), "counts do not overflow")
	}
	return s
}

func TestWhatTenantsWriteBoundsTheStatusAndTheMetrics(t *testing.T) {
	const kB256 = 256 << 10
	long := strings.Repeat("é\"\x00", kB256/4)
	many := func(n int, change func(i int, e *rebalance.Entry)) (all []rebalance.Entry) {
		for i := range n {
			e := exact(fmt.Sprintf("w%d", i))
			change(i, &e)
			all = append(all, e)
		}
		return all
	}
	names := make([]string, 10_000)
	for i := range names {
		names[i] = strings.Repeat("m", 240) + fmt.Sprint(i)
	}
	for name, tc := range map[string]struct {
		invalid error
		mine    []rebalance.Entry
		others  []string
	}{
		"replicas 2147483647 without a pod": {mine: many(1, func(_ int, e *rebalance.Entry) { e.Group.Replicas, e.Group.Assignments = math.MaxInt32, nil })},
		"replicas 2147483647 of each of 100 workloads": {mine: many(100, func(_ int, e *rebalance.Entry) {
			e.Group.Replicas, e.WrongSince, e.Verdict.Reason = math.MaxInt32, noon.Add(-time.Hour), rebalance.ReasonInsufficientCapacity
		})},
		"replicas -1":      {mine: many(1, func(_ int, e *rebalance.Entry) { e.Group.Replicas = -1 })},
		"replicas 0":       {mine: many(1, func(_ int, e *rebalance.Entry) { e.Group.Replicas = 0 })},
		"10,000 workloads": {mine: many(10_000, func(int, *rebalance.Entry) {})},
		"10,000 workloads out of their mix": {mine: many(10_000, func(_ int, e *rebalance.Entry) {
			e.Group.Replicas, e.WrongSince, e.Verdict = 9, noon.Add(-time.Hour), rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity, Message: strings.Repeat("x", 1000)}
		})},
		"names, kinds, revisions and messages of 256 kB": {mine: many(60, func(_ int, e *rebalance.Entry) {
			e.Group.Workload = clusterstate.Workload{APIVersion: long, Kind: long, Name: long, Revision: long, UID: "uid"}
			e.Group.Replicas, e.WrongSince, e.Verdict = 9, noon.Add(-time.Hour), rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity, Message: long}
		})},
		"an error of 256 kB": {invalid: errors.New(long)},
		"10,000 older mixes": {others: names},
		"10,000 moves and placeholders": {mine: many(1, func(_ int, e *rebalance.Entry) {
			e.Moves, e.Placeholders = make([]rebalance.Move, 10_000), make([]rebalance.Placeholder, 10_000)
		})},
		"times before and after all times": {mine: many(2, func(i int, e *rebalance.Entry) {
			e.WrongSince, e.RetryAt = time.Unix(0, 1), time.Unix(1<<40, 0)
			e.Failures = math.MaxInt32
		})},
	} {
		t.Run(name, func(t *testing.T) { checkStatus(t, tc.invalid, tc.mine, tc.others) })
	}
}

func TestMovesOfAnOwnerThatHasEndedAreOver(t *testing.T) {
	e := outOfMix("job")
	e.Moves = make([]rebalance.Move, 9)
	e.Group.Ended, e.Group.Assignments, e.Group.Replicas = true, nil, 0
	s := checkStatus(t, nil, []rebalance.Entry{e}, nil)
	for _, c := range s.Conditions {
		assert.NotContains(t, c.Message, "being moved")
		assert.NotEqual(t, v1alpha1.ReasonMoving, c.Reason)
	}
}

func FuzzStatus(f *testing.F) {
	f.Add("Deployment", "web", "web-7d", "no room", int64(5), int64(0), uint8(0), uint8(2))
	f.Add(strings.Repeat("k", 1<<18), "\xff\x00", "", strings.Repeat("é", 1<<17), int64(math.MaxInt32), int64(math.MaxInt64), uint8(7), uint8(200))
	f.Add("", "", "", "", int64(-1), int64(math.MinInt64), uint8(255), uint8(1))
	f.Fuzz(func(t *testing.T, kind, name, revision, message string, replicas, at int64, places, count uint8) {
		var mine []rebalance.Entry
		for i := range int(count) {
			e := outOfMix(fmt.Sprint("w", i))
			e.Group.Workload.Kind, e.Group.Workload.Name, e.Group.Workload.Revision = kind, name, revision
			e.Group.Replicas = int(min(max(replicas, math.MinInt32), math.MaxInt32)) // what an int32 of the API holds
			e.WrongSince, e.RetryAt, e.Verdict.Message = time.Unix(at%(1<<40), 0), time.Unix(-at%(1<<40), 0), message
			e.Group.Ended = places&8 != 0
			for j := range e.Group.Assignments {
				e.Group.Assignments[j].Place = clusterstate.Place(int(places>>(j%3)) % 3)
			}
			for range places % 5 {
				e.Moves = append(e.Moves, rebalance.Move{Name: name})
			}
			mine = append(mine, e)
		}
		checkStatus(t, errors.New(message), mine, []string{name, revision})
	})
}
