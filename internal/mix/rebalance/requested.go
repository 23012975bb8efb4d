// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/evictions"
)

// requested reports whether someone requests the eviction of a replica, and waits for Berth to release it.
func (in *Input) requested(s *clusterstate.Assignment) bool {
	return s.Place != clusterstate.Pending && !in.For.Requested[s.Pod.UID].IsZero()
}

// FateOf is what becomes of a pod whose eviction is requested. It is not known of a pod that is no replica of the workload, and of one
// that was released or evicted just now: the cluster state shows that.
func (in *Input) FateOf(uid types.UID) (f evictions.Fate, known bool) {
	for i := range in.Group.Assignments {
		if s := &in.Group.Assignments[i]; s.Has(uid) {
			if slices.ContainsFunc(in.For.Moves, func(m Move) bool { return m.Requested && m.UID == uid }) {
				return refused("it moves by a request of Berth itself"), true
			}
			if s.Place == clusterstate.Pending && s.Pod.Bound() {
				return f, false
			}
			return in.fateOf(s), true
		}
	}
	return f, false
}

func refused(why string) evictions.Fate { return evictions.Fate{State: evictions.Refused, Why: why} }

// fateOf is what becomes of a replica whose eviction is requested: it is released, unless something is in the way. What may end within
// minutes is waited for.
func (in *Input) fateOf(s *clusterstate.Assignment) evictions.Fate {
	if in.For.Invalid != nil {
		return refused(in.For.Invalid.Error())
	}
	if !in.Settings.Strategy.releases() {
		return refused(fmt.Sprintf("rebalance.strategy is %s", in.Settings.Strategy))
	}
	if v := in.Effect(Verdict{Reason: ReasonMove}); v.Reason != ReasonMove {
		return refused(v.Reason.Name)
	}
	switch v := in.stays(); v.Reason {
	case nil:
	case ReasonRollingOut:
		return evictions.Fate{State: evictions.Waiting, Why: v.Message}
	default:
		return refused(v.Message)
	}
	if why, _ := in.notReleasable(s, true); why != "" {
		return refused(why)
	}
	if annotation, _ := s.Pod.Keeps(in.Cluster.Now); annotation != "" {
		return refused(fmt.Sprintf("the pod has the annotation %s", annotation))
	}
	if s.Place == clusterstate.Pending {
		return refused("it has no node")
	}
	f := evictions.Fate{State: evictions.Waiting}
	if in.For.Now.Before(in.For.Flights[s.Pod.UID]) {
		f.Why = "a release failed, and is tried again"
	} else if v := in.without(s); v.Reason != nil && in.waits(s) {
		f.Why = v.Message
	}
	return f
}

// Withdraws reports whether the request for a move that is over is withdrawn: its pod is not to go any more.
func (e *Ending) Withdraws() bool { return e.Move.Requested && e.Outcome != Succeeded }
