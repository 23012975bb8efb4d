// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/split"
)

// mostMissing is how many replicas without a pod a plan counts on. Where more are missing, it plans no move.
const mostMissing = 10_000

// allReady is the group once all its replicas are there and available, which moves wait for.
func allReady(given clusterstate.Group) clusterstate.Group {
	g := given
	g.MinReady = 0
	g.Assignments = slices.Clone(g.Assignments)
	for i := range g.Assignments {
		s := &g.Assignments[i]
		if s.Pod = becomeReady(s.Pod); s.Pods == nil {
			continue
		}
		s.Pods = slices.Clone(s.Pods)
		for j := range s.Pods {
			s.Pods[j] = becomeReady(s.Pods[j])
		}
	}
	if missing := g.Replicas - len(g.Assignments); missing > 0 && missing <= mostMissing {
		g.Assignments = append(g.Assignments, notMade(&given, missing)...)
		slices.SortFunc(g.Assignments, func(a, b clusterstate.Assignment) int { return a.Slot - b.Slot })
	}
	return g
}

// notMade are replicas that have no pod yet, on the slots where the scheduler puts them.
func notMade(g *clusterstate.Group, n int) (list []clusterstate.Assignment) {
	joiner := g.Joiner(nil)
	for range n {
		slot := joiner.Join(g.AnyOrder)
		t, id := g.Governing.Mix.TypeOf(slot), fmt.Sprintf("not made yet: slot %d", slot)
		list = append(list, clusterstate.Assignment{
			Place: clusterstate.Pending, Pod: &clusterstate.Pod{Namespace: g.Workload.Namespace, UID: types.UID(id)},
			Assignment: split.Assignment{Wants: t, Pod: split.Pod{ID: id, Slot: slot, On: t}},
		})
	}
	return list
}

func becomeReady(p *clusterstate.Pod) *clusterstate.Pod {
	ready := *p
	ready.Ready = true
	return &ready
}
