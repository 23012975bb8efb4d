// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/split"
)

// takenBy are the slots of pods of the same owner that the mix does not govern.
func takenBy(g *clusterstate.Group) (taken split.Slots) {
	for _, slot := range g.Taken {
		taken.Take(slot)
	}
	return taken
}

// mostMissing is how many replicas without a pod a plan counts on. Where more are missing, it plans no move.
const mostMissing = 10_000

// allReady is the group once all its replicas are there and available, which moves wait for.
func allReady(given clusterstate.Group) clusterstate.Group {
	g, taken := given, takenBy(&given)
	g.MinReady = 0
	g.Assignments = slices.Clone(g.Assignments)
	for i := range g.Assignments {
		p := *g.Assignments[i].Pod
		p.Ready = true
		g.Assignments[i].Pod = &p
		taken.Take(g.Assignments[i].Slot)
	}
	for g.Replicas-len(given.Assignments) <= mostMissing && len(g.Assignments) < g.Replicas {
		slot := taken.Lowest()
		taken.Take(slot)
		t, id := g.Governing.Mix.TypeOf(slot), fmt.Sprintf("not made yet: slot %d", slot)
		g.Assignments = append(g.Assignments, clusterstate.Assignment{
			Place: clusterstate.Pending, Pod: &clusterstate.Pod{Namespace: g.Workload.Namespace, UID: types.UID(id)},
			Assignment: split.Assignment{Wants: t, Pod: split.Pod{ID: id, Slot: slot, On: t}},
		})
	}
	slices.SortFunc(g.Assignments, func(a, b clusterstate.Assignment) int { return a.Slot - b.Slot })
	return g
}
