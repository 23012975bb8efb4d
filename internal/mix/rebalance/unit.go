// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// maxUnit is the number of pods of a unit that moves, at most. The proof makes some requests for each of them, and other workloads wait
// meanwhile.
const maxUnit = 64

// unitWouldRestart keeps units of more than one pod where they are. A unit never runs on both types, so it moves as a whole, and an
// eviction ends one pod: what happens to the others is up to the operator that makes them. Only one that creates all of them again
// anyway is left to do so.
func unitWouldRestart(s *subject) (v Verdict) {
	n := len(s.Pods)
	if n < 2 {
		return v
	}
	set := governing.SetOf(s.Pod.Object())
	if n > maxUnit && set != nil {
		return ReasonUnitWouldRestart.because("unit %s has %d pods: capacity is proven for at most %d pods at the same time", s.Unit, n, maxUnit)
	}
	if cost := s.restartCost(set, n); cost != "" {
		v = ReasonUnitWouldRestart.because("pod %s is one of %d pods of unit %s, which run on one capacity type: %s", s.Pod.Name, n, s.Unit,
			cost)
	}
	return v
}

// followsItsLeader reports whether a pod runs in the domain that its leader has at present, which its controller has written into the
// template of the pod: the next leader may be elsewhere, so the next pod is not known.
func followsItsLeader(p *clusterstate.Pod) bool {
	for key := range p.Annotations {
		if governing.FollowsLeader(key) {
			return true
		}
	}
	return false
}

// restartCost is why the move of a unit of n pods costs more than the restart of these, for the end of a sentence about it; "" if it
// does not.
func (s *subject) restartCost(set *governing.Set, n int) string {
	switch {
	case set == nil:
		return fmt.Sprintf("no operator is known that would create all %d of them again", n)
	case set.Kind == jobSet:
		return fmt.Sprintf("a %s restarts as a whole or fails if the Job of %d pods does not go on, and loses the work since its last checkpoint",
			set.Kind, n)
	case !RestartsUnits(&s.Group):
		return fmt.Sprintf("it is not known that its %s creates all %d of them again if one ends, because the pods are not counted by it",
			set.Kind, n)
	case s.History.Restart == RestartUnknown:
		return fmt.Sprintf("it is not known that its %s creates all %d of them again if one ends, because it could not be read", set.Kind, n)
	case s.History.Restart == RestartSingle:
		return fmt.Sprintf("its %s does not create all %d of them again if one ends: its restartPolicy is not %s, or it is being deleted",
			set.Kind, n, recreateGroup)
	case slices.ContainsFunc(s.Pods, followsItsLeader):
		return "the next pods are not known, because their exclusive topology limits them to the domain that their next leader has"
	}
	return ""
}

// jobSet is the kind of sets whose units are Jobs.
const jobSet = "JobSet"

// unitOverBudget counts the pods of a unit. One that is larger than a limit moves alone: it would never move otherwise.
func unitOverBudget(s *subject) (v Verdict) {
	n := len(s.Pods)
	if n < 2 {
		return v
	}
	if s.For != nil && slices.ContainsFunc(s.For.Moves, func(m Move) bool { return m.Unit == s.Unit }) {
		return ReasonMixBudget.because("unit %s is being moved", s.Unit)
	}
	switch h, c := &s.History, &s.Cluster; {
	case h.InFlight > 0 && h.InFlight+n > s.Settings.MaxConcurrent:
		v = ReasonMixBudget.because("%d of at most %d replicas of this mix are being moved, and unit %s has %d pods", h.InFlight,
			s.Settings.MaxConcurrent, s.Unit, n)
	case c.InFlight > 0 && c.InFlight+c.Reserved+n > c.Limit:
		v = ReasonClusterBudget.because("%d of at most %d replicas of the cluster are being moved, and unit %s has %d pods", c.InFlight,
			c.Limit, s.Unit, n)
	}
	return v
}
