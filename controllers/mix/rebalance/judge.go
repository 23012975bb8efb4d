// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// outcome is how a move ended.
type outcome string

const (
	moving    outcome = ""
	succeeded outcome = "succeeded"
	// failed: every replica is available again, and the replacement is on the wrong side.
	failed outcome = "failed"
	// timedOut: not every replica is available again.
	timedOut outcome = "timed-out"
	// abandoned: the owner makes no more pods.
	abandoned outcome = "abandoned"
	// notEvicted: the API server did not carry the eviction out.
	notEvicted outcome = "not-evicted"
	// notProvisioned: no placeholder came to hold the capacity, and nothing was evicted.
	notProvisioned outcome = "not-provisioned"
)

// newMove is the move of a replica that is about to be evicted.
func newMove(g *clusterstate.Group, v rebalance.Verdict, now time.Time) rebalance.Move {
	m := rebalance.Move{
		UID: v.Pod.UID, Namespace: v.Pod.Namespace, Name: v.Pod.Name, Started: now, Target: v.Target,
		Slot: rebalance.SlotOfReplacement(g, v.Pod.UID), Before: &g.Assignments,
	}
	for i := range g.Assignments {
		m.Newest = max(m.Newest, createdAt(g.Assignments[i].Pod))
	}
	return m
}

// createdAt has the precision of the API.
func createdAt(p *clusterstate.Pod) int64 { return time.Unix(0, p.Created).Unix() }

// deadline is when a move that has not ended fails. A replacement becomes Ready in the time for a move, and available after it.
func deadline(m rebalance.Move, g *clusterstate.Group, timeout time.Duration) time.Time {
	return m.Started.Add(timeout + g.MinReady)
}

// judgement is the outcome of a move, with the type that its replacement runs on where that is the wrong one.
type judgement struct {
	outcome outcome
	on      capacity.Type
}

// judge returns the outcome of each move, moving where it is not over. A move ends when the evicted pod is gone from its
// group and the group is whole again: as many replicas as wanted, all available. Pods that still terminate do not count: their
// replacements do. It is good if its own replacement is on its side, whatever other replicas do meanwhile: a changed mix, a
// lost node or a scale-up that borrows changes the totals as well.
func judge(moves []rebalance.Move, g *clusterstate.Group, want int, now time.Time, l limits) []judgement {
	whole := len(g.Assignments) >= want && rebalance.Available(g, now) == len(g.Assignments)
	list := make([]judgement, len(moves))
	claimed := map[types.UID]bool{}
	// What came after the last move came after those before it, too: the last one has the fewest to choose from.
	for i := len(moves) - 1; i >= 0; i-- {
		m := &moves[i]
		there := slices.ContainsFunc(g.Assignments, func(s clusterstate.Assignment) bool { return s.Pod.UID == m.UID })
		switch {
		case g.Ended:
			list[i].outcome = abandoned
		case there && m.Doubtful() && !now.Before(m.DoubtUntil):
			list[i].outcome = notEvicted
		case whole && !there:
			list[i] = judgeReplacement(m, g, claimed)
		case !now.Before(deadline(*m, g, l.timeout)):
			list[i].outcome = timedOut
		}
	}
	return list
}

// judgeReplacement judges a move by its replacement, which it claims. Replicas of one owner that are as new are alike: the
// move is good if any of them that no other move claims is on its side. It is good as well if there is none: the owner has
// fewer replicas by now.
func judgeReplacement(m *rebalance.Move, g *clusterstate.Group, claimed map[types.UID]bool) judgement {
	var wrong *clusterstate.Assignment
	for _, s := range arrivals(m, g) {
		if claimed[s.Pod.UID] {
			continue
		}
		if onItsSide(m, g, s) {
			claimed[s.Pod.UID] = true
			return judgement{outcome: succeeded}
		}
		wrong = s
	}
	if wrong == nil {
		return judgement{outcome: succeeded}
	}
	claimed[wrong.Pod.UID] = true
	return judgement{outcome: failed, on: wrong.On}
}

// onItsSide reports whether a replica runs on the type that a move was for, or on the one that its slot has since the mix was
// changed.
func onItsSide(m *rebalance.Move, g *clusterstate.Group, s *clusterstate.Assignment) bool {
	if m.Target == capacity.Unknown {
		return s.On == s.Wants
	}
	return s.On == m.Target || s.On == g.Policy.Mix.TypeOf(m.Slot)
}

// arrivals are the replicas that may be the replacement of a move: the one with its name, if there is one, else all that were
// not there before.
func arrivals(m *rebalance.Move, g *clusterstate.Group) (list []*clusterstate.Assignment) {
	var before map[types.UID]bool
	if m.Before != nil {
		before = make(map[types.UID]bool, len(*m.Before))
		for i := range *m.Before {
			before[(*m.Before)[i].Pod.UID] = true
		}
	}
	for i := range g.Assignments {
		s := &g.Assignments[i]
		switch {
		// Without the list of an earlier leader, a replica that was created in the same second as the newest one counts.
		case before[s.Pod.UID], before == nil && m.Newest > 0 && createdAt(s.Pod) < m.Newest:
		case s.Pod.Name == m.Name:
			return []*clusterstate.Assignment{s}
		default:
			list = append(list, s)
		}
	}
	return list
}
