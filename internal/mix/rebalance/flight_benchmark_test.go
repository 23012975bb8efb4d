// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"testing"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// One workload whose nodes are all drained, and no place for a replacement.
func BenchmarkAStrandedWorkload(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("%d replicas", n), func(b *testing.B) {
			on := make([]capacity.Type, n)
			for i := range on {
				on[i] = od
			}
			w := drained(capacity.Maintenance)
			g := groupOn(split.New(0, 0), on...)
			releasable(&g)
			for i := range g.Assignments {
				g.Assignments[i].Place, g.Assignments[i].Cause = clusterstate.Departing, capacity.Maintenance
			}
			w.Group = g
			in := w.Input(outOfMix().Cluster, w.InFlight(), func(capacity.Type, *clusterstate.Pod) bool { return false })
			b.ReportAllocs()
			for b.Loop() {
				if a := rebalance.Plan(in)[0]; a.Step != rebalance.StepRest {
					b.Fatal(a.Step)
				}
			}
		})
	}
}
