// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// offlineMinimum is the least number of evictions after which a group has
// exactly its mix, whichever pods are evicted in whatever order: a search
// through all states that evictions lead to, one after the other. It knows
// nothing of the rebalancer, only where the scheduler puts a replacement: on the
// lowest free slot, and the node type of that. reachable is false if no number
// of evictions is enough.
func offlineMinimum(m split.Mix, start map[int]capacity.Type) (evictions int, reachable bool) {
	seen := map[string]bool{}
	for states := []map[int]capacity.Type{start}; len(states) > 0; evictions++ {
		var next []map[int]capacity.Type
		for _, on := range states {
			var c split.Count
			for _, t := range on {
				c.Add(t)
			}
			if m.Exact(c) {
				return evictions, true
			}
			for victim := range on {
				after := maps.Clone(on)
				delete(after, victim)
				slot := 0
				for _, taken := after[slot]; taken; _, taken = after[slot] {
					slot++
				}
				after[slot] = m.TypeOf(slot)
				if key := fmt.Sprint(after); !seen[key] {
					seen[key] = true
					next = append(next, after)
				}
			}
		}
		states = next
	}
	return 0, false
}

// checkMinimum plays the rebalancer to the end, one move at a time: it takes the
// fewest evictions. It gives up, with NoGain, only where the split cannot be had
// without evicting a pod without success, whose replacement comes to the same type again.
func checkMinimum(t *rapid.T, s *sim) {
	start := map[int]capacity.Type{}
	for _, p := range s.pods {
		start[p.slot] = p.on
	}
	least, reachable := offlineMinimum(s.m, start)
	g := s.group()
	wrong := len(g.WrongSide())
	v := s.run(1)
	if v.Reason == rebalance.ReasonOnTarget {
		require.True(t, reachable)
		require.Equal(t, least, s.moves, "moves against the offline minimum")
		return
	}
	require.Equal(t, rebalance.ReasonNoGain, v.Reason, v.Message)
	require.True(t, !reachable || least > wrong, "it can be had by %d moves", least)
}

// Where no slot is free below the size of the group, there is no such pod.
func TestMovesAreTheOfflineMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkMinimum(t, drawSim(t, upTo(rapid.IntRange(0, 7).Draw(t, "replicas")), sp, od))
	})
}

func TestMovesFromNodesOfUnknownTypeAreTheOfflineMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkMinimum(t, drawSim(t, upTo(rapid.IntRange(0, 7).Draw(t, "replicas")), sp, od, capacity.Unknown))
	})
}

func TestMovesWithFreeSlotsAreTheOfflineMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 6, rapid.ID).Draw(t, "slots")
		checkMinimum(t, drawSim(t, slots, sp, od))
	})
}

// The search itself, on states whose answer can be seen.
func TestOfflineMinimum(t *testing.T) {
	m := split.New(50, 0) // slots 0, 2, 4 on-demand, 1, 3, 5 spot
	for _, tc := range []struct {
		on        []capacity.Type
		evictions int
	}{
		{[]capacity.Type{od, sp, od, sp}, 0},
		{[]capacity.Type{od, od, od, sp}, 1},
		{[]capacity.Type{od, od, od, od}, 2},
		{[]capacity.Type{sp, od, sp, od}, 0}, // the split counts, not who is where
	} {
		start := map[int]capacity.Type{}
		for slot, t := range tc.on {
			start[slot] = t
		}
		evictions, reachable := offlineMinimum(m, start)
		require.True(t, reachable)
		require.Equal(t, tc.evictions, evictions, "%v", tc.on)
	}
}
