// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"time"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/fallback"
)

// FellBack returns how many replicas of a group are limited to on-demand since
// spot nodes did not come, and the newest of what they say about that.
func FellBack(g *clusterstate.Group) (newest fallback.Mark, replicas int) {
	for i := range g.Assignments {
		p := g.Assignments[i].Pod
		if m, ok := fallback.MarkOf(p.Annotations, string(p.UID)); ok {
			replicas++
			if m.Later(newest) {
				newest = m
			}
		}
	}
	return newest, replicas
}

// hasPlace reports whether a spot node may have free capacity for the replacement of a replica now. It goes there whatever the circuit
// breaker of the scheduler has come to, which is about nodes that have to be launched.
func (in *Input) hasPlace(p *clusterstate.Pod) bool {
	return !in.placeless && in.MayFit(capacity.Spot, p) && in.Skip[string(p.UID)].Reason != ReasonInsufficientCapacity
}

// spotUnavailable keeps replicas from spot nodes that have to be launched while spot is not tried, and has them try it as the circuit
// breaker of the scheduler lets them: one, and one more for each that came to run there since. The others would fall back again.
func spotUnavailable(in *Input) (r Reason, retryAt time.Time, message string) {
	mark, replicas := FellBack(&in.Group)
	if replicas == 0 {
		return "", time.Time{}, ""
	}
	switch allowed := 1 + returned(&in.Group, mark.RetryAt); {
	case in.Cluster.Now.Before(mark.RetryAt):
		return ReasonSpotUnavailable, mark.RetryAt, "spot nodes did not come; spot is tried again at " + clockTime(mark.RetryAt)
	case mark.Failures >= fallback.Threshold && in.History.InFlight >= allowed:
		return ReasonMixBudget, time.Time{}, fmt.Sprintf("spot nodes did not come before: %d of at most %d replicas try them again",
			in.History.InFlight, allowed)
	}
	return "", time.Time{}, ""
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
