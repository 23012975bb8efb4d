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
	if n <= maxUnit && s.History.RestartsWhole && set != nil && set.RestartsWhole && !slices.ContainsFunc(s.Pods, followsItsLeader) {
		return v
	}
	if n > maxUnit && set != nil {
		return ReasonUnitWouldRestart.because("unit %s has %d pods: capacity is proven for at most %d pods at the same time", s.Unit, n, maxUnit)
	}
	return ReasonUnitWouldRestart.because("pod %s is one of %d pods of unit %s, which run on one capacity type: %s", s.Pod.Name, n, s.Unit,
		costOf(set, n))
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

// costOf is what the move of a unit of n pods costs, for the end of a sentence about it.
func costOf(set *governing.Set, n int) string {
	switch {
	case set == nil:
		return fmt.Sprintf("no operator is known that would create all %d of them again", n)
	case set.Kind == jobSet:
		return fmt.Sprintf("a %s restarts as a whole or fails if the Job of %d pods does not go on, and loses the work since its last checkpoint",
			set.Kind, n)
	}
	return fmt.Sprintf("it is not known that its %s creates all %d of them again if one ends (restartPolicy RecreateGroupOnPodRestart, "+
		"without exclusive topology), or berth-controller may not get it", set.Kind, n)
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
