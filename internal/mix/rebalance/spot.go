// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"time"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/fallback"
)

// FellBack returns how many replicas of a group are limited to on-demand since
// spot nodes did not come, and the newest of their marks.
func FellBack(g *clusterstate.Group) (newest fallback.Mark, replicas int) {
	for i := range g.Assignments {
		if m, ok := fellBack(&g.Assignments[i]); ok {
			replicas++
			if m.Later(newest) {
				newest = m
			}
		}
	}
	return newest, replicas
}

// fellBack returns the newest mark of the pods of a replica.
func fellBack(a *clusterstate.Assignment) (newest fallback.Mark, ok bool) {
	for _, p := range a.Members() {
		if m, marked := fallback.MarkOf(p.Annotations, string(p.UID)); marked && (!ok || m.Later(newest)) {
			newest, ok = m, true
		}
	}
	return newest, ok
}

// hasPlace reports whether a spot node may have free capacity for the replacement of a replica now. It goes there whatever the circuit
// breaker of the scheduler has come to, which is about nodes that have to be launched.
func (in *Input) hasPlace(p *clusterstate.Pod) bool {
	return !in.placeless && in.MayFit(capacity.Spot, p) && in.Skip[string(p.UID)].Reason != ReasonInsufficientCapacity
}

// spotUnavailable keeps replicas from spot nodes that have to be launched while spot is not tried. Then it has them try as the
// circuit breaker of the scheduler does: one, and one more for each that has come to run on spot since. The others would fall
// back again.
func spotUnavailable(s *subject) (v Verdict) {
	if s.target != capacity.Spot || s.hasPlace(s.Pod) {
		return v
	}
	mark, replicas := FellBack(&s.Group)
	if replicas == 0 {
		return v
	}
	switch allowed := 1 + returned(&s.Group, mark.RetryAt); {
	case s.Cluster.Now.Before(mark.RetryAt):
		v = ReasonSpotUnavailable.until(mark.RetryAt, "spot nodes did not come; spot is tried again at %s", clockTime(mark.RetryAt))
	case mark.Failures >= fallback.Threshold && s.History.InFlight >= allowed:
		v = ReasonMixBudget.because("spot nodes did not come before: %d of at most %d replicas try them again", s.History.InFlight, allowed)
	}
	return v
}

// returned counts the replicas on spot nodes that were made since a time.
func returned(g *clusterstate.Group, since time.Time) (n int) {
	for _, s := range g.Assignments {
		if s.Place == clusterstate.Settled && s.On == capacity.Spot && s.Pod.Created >= since.UnixNano() {
			n++
		}
	}
	return n
}
