// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"slices"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// subject is what checks decide about: a workload, and one of its replicas for the checks of a replica.
type subject struct {
	*Input
	clusterstate.Assignment
	// target is the type of the slot that the replacement of the replica will claim.
	target capacity.Type
}

// check returns why a subject must not move, a verdict without a reason if it may.
type check func(*subject) Verdict

// The chain of checks, in its order: the first one that refuses determines the reason. What time does not change comes first.
var (
	workloadChecks = []check{
		switchedOff,
		paused,
		notInCanary,
		withoutControllers,
		ownerEnded,
		countsAsFailure,
		otherScheduler,
		fixedNode,
		startupGrace,
		storm,
		healthGate,
		rollingOut,
		stabilizing,
		backingOff,
		outsideWindow,
		overBudget,
		overPace,
		replicasMissing,
		atMaxUnavailable,
		notReady,
	}
	replicaChecks = []check{
		withoutController,
		ofEndedOwner,
		unitWouldRestart,
		unitOverBudget,
		pinned,
		podGroupMember,
		doNotDisrupt,
		localStorage,
		withoutGain,
		spotUnavailable,
		belowFloor,
		notReleased,
		disruptionBudget,
		held,
		withoutCapacity,
	}
)

// first returns the verdict of the first check that refuses.
func first(checks []check, s *subject) (v Verdict) {
	for _, refuses := range checks {
		if v = refuses(s); v.Reason != nil {
			break
		}
	}
	return v
}

func switchedOff(s *subject) (v Verdict) {
	if s.Settings.Mode == Off {
		v = ReasonOff.because("rebalance.mode is Off")
	}
	return v
}

// withoutControllers is withoutController for groups in which no pod has one.
func withoutControllers(s *subject) (v Verdict) {
	bare := func(a clusterstate.Assignment) bool { return a.Pod.Owner == nil }
	if all := s.Group.Assignments; len(all) > 0 && !slices.ContainsFunc(all, func(a clusterstate.Assignment) bool { return !bare(a) }) {
		v = ReasonNoController.because("pods without a controller are not evicted: no one would make new ones")
	}
	return v
}

func withoutController(s *subject) Verdict {
	return s.ofEach(func(p *clusterstate.Pod) (v Verdict) {
		if p.Owner == nil {
			v = ReasonNoController.because("pod %s has no controller: no one would make a new one", p.Name)
		}
		return v
	})
}

// ofEach returns the verdict about the first pod of a replica that must not go.
func (s *subject) ofEach(refuses func(*clusterstate.Pod) Verdict) (v Verdict) {
	for _, p := range s.Members() {
		if v = refuses(p); v.Reason != nil {
			break
		}
	}
	return v
}

func otherScheduler(s *subject) (v Verdict) {
	// With the gate, the leading berth-scheduler determines the type, and the scheduler that binds the pod keeps to it.
	if !s.Group.Gated && !slices.Contains(s.Cluster.SchedulerNames, s.Group.SchedulerName) {
		v = ReasonOtherScheduler.because("schedulerName is %s, which does not place by the mix", s.Group.SchedulerName)
	}
	return v
}

func startupGrace(s *subject) (v Verdict) {
	if until := s.Cluster.GraceUntil; s.Cluster.Now.Before(until) {
		v = ReasonStartupGrace.until(until, "the controller has just started, or the API server was away: nothing is moved until %s",
			clockTime(until))
	}
	return v
}

func storm(s *subject) (v Verdict) {
	if until := s.Cluster.StormUntil; s.Cluster.Now.Before(until) {
		v = ReasonStorm.until(until, "spot storm: many spot nodes are departing; nothing is moved before %s", clockTime(until))
	}
	return v
}

func rollingOut(s *subject) (v Verdict) {
	r, since := s.Group.Rollout, s.History.RollingSince
	if !r.Rolling || r.Stuck {
		return v
	}
	if since.IsZero() {
		return ReasonRollingOut.because("a rollout is in progress")
	}
	if until := since.Add(s.Cluster.RolloutDeadline); s.Cluster.Now.Before(until) {
		v = ReasonRollingOut.until(until, "a rollout is in progress")
	}
	return v
}

func stabilizing(s *subject) (v Verdict) {
	since := s.History.WrongSince
	if until := since.Add(s.Settings.Stabilization); s.Cluster.Now.Before(until) {
		v = ReasonStabilizing.until(until, "out of its mix since %s; moves begin at %s", clockTime(since), clockTime(until))
	}
	return v
}

func backingOff(s *subject) (v Verdict) {
	h := &s.History
	switch at := h.RetryAt; {
	case !s.Cluster.Now.Before(at):
	case h.Refused != nil:
		v = h.Refused.until(at, "%s. Moves that failed or were refused in a row: %d; the next is tried at %s", h.Refusal, h.Failures,
			clockTime(at))
	default:
		v = ReasonBackingOff.until(at, "%s in a row failed; the next is tried at %s", display.Count(int(h.Failures), "move"), clockTime(at))
	}
	return v
}

func outsideWindow(s *subject) (v Verdict) {
	switch open, until := s.Settings.Windows.Open(s.Cluster.Now); {
	case open:
	case until.IsZero():
		v = ReasonOutsideWindow.because("no window for moves opens within a year")
	default:
		v = ReasonOutsideWindow.until(until, "outside the windows for moves; the next opens at %s", until.UTC().Format(time.RFC3339))
	}
	return v
}

func overBudget(s *subject) (v Verdict) {
	switch c := &s.Cluster; {
	case s.History.InFlight >= s.Settings.MaxConcurrent:
		v = ReasonMixBudget.because("%d of at most %d replicas of this mix are being moved", s.History.InFlight, s.Settings.MaxConcurrent)
	case c.InFlight >= c.Limit:
		v = ReasonClusterBudget.because("%d of at most %d replicas of the cluster are being moved", c.InFlight, c.Limit)
	case c.InFlight+c.Reserved >= c.Limit:
		v = ReasonClusterBudget.because("%d of at most %d replicas of the cluster are being moved, and other namespaces have their turn first",
			c.InFlight, c.Limit)
	}
	return v
}

func notReady(s *subject) (v Verdict) {
	g := &s.Group
	if left := len(g.Leaving) - s.History.Moving; left > 0 {
		return ReasonNotReady.because("%s beside the replacement", display.Clause(left, "released replica", "still runs", "still run"))
	}
	if have := len(g.Assignments); have < g.Replicas {
		return ReasonNotReady.because("%d of %d replicas have no pod yet", g.Replicas-have, g.Replicas)
	}
	// Of those that time alone makes available, the last one counts: the verdict holds until then.
	var last *clusterstate.Pod
	var until time.Time
	for i := range g.Assignments {
		a := &g.Assignments[i]
		if a.Place != clusterstate.Settled {
			continue
		}
		if n := a.Size(); n > len(a.Pods) {
			return ReasonNotReady.because("unit %s has %d of %d pods", a.Unit, len(a.Pods), n)
		}
		for _, p := range a.Members() {
			at, ready := g.AvailableAt(p)
			if !ready {
				return ReasonNotReady.because("pod %s is not Ready", p.Name)
			}
			if s.Cluster.Now.Before(at) && at.After(until) {
				last, until = p, at
			}
		}
	}
	if last != nil {
		v = ReasonNotReady.until(until, "pod %s is Ready, and available at %s (minReadySeconds: %d)", last.Name, clockTime(until),
			g.MinReady/time.Second)
	}
	return v
}

func pinned(s *subject) Verdict {
	return s.ofEach(func(p *clusterstate.Pod) (v Verdict) {
		if p.Pinned {
			v = ReasonPinned.because("pod %s names a capacity type in its own nodeSelector or affinity", p.Name)
		}
		return v
	})
}

func podGroupMember(s *subject) Verdict {
	return s.ofEach(func(p *clusterstate.Pod) (v Verdict) {
		if p.Grouped {
			v = ReasonPodGroupMember.because("pod %s is a member of a PodGroup, which may need all of its members", p.Name)
		}
		return v
	})
}

// doNotDisrupt leaves a pod to localStorage that has local data as well as an annotation with an end: the data stays longer.
func doNotDisrupt(s *subject) Verdict {
	return s.ofEach(func(p *clusterstate.Pod) (v Verdict) {
		switch key, until := p.Keeps(s.Cluster.Now); {
		case !until.IsZero() && p.LocalData == "":
			v = ReasonDoNotDisrupt.until(until, "pod %s has the annotation %s: %s, which ends at %s", p.Name, key, p.Annotations[key],
				until.UTC().Format(time.RFC3339))
		case key != "" && until.IsZero():
			v = ReasonDoNotDisrupt.because("pod %s has the annotation %s", p.Name, key)
		}
		return v
	})
}

func localStorage(s *subject) Verdict {
	return s.ofEach(func(p *clusterstate.Pod) (v Verdict) {
		if p.LocalData != "" {
			v = ReasonLocalStorage.because("pod %s has data on its node in volume %s (annotation %s: \"true\" lets it move)", p.Name,
				p.LocalData, pods.SafeToEvict)
		}
		return v
	})
}

func withoutGain(s *subject) (v Verdict) {
	if s.target == s.On {
		v = ReasonNoGain.because("the replacement of pod %s would take a free slot of type %s again", s.Pod.Name, s.On)
	}
	return v
}

func belowFloor(s *subject) (v Verdict) {
	floor, n := floorOf(s.Group), availableOnDemand(&s.Group, s.Cluster.Now)
	if s.On == capacity.OnDemand && n-1 < floor {
		v = ReasonFloor.because("%d available replicas are on on-demand, and %d must stay there", n, floor)
	}
	return v
}

// disruptionBudget counts every pod of a unit: all of them go. One that is released goes after its replacement is available: a budget
// that allows none to be missing allows it then, but two budgets never do.
func disruptionBudget(s *subject) Verdict {
	budgets, surges := s.Budgets, s.surges(&s.Assignment)
	return s.ofEach(func(p *clusterstate.Pod) Verdict {
		v := Disruptable(budgets, p.Labels, p.Ready)
		if surges && v.Reason == ReasonPDB {
			return Verdict{}
		}
		if s.Pods != nil {
			budgets = Spend(budgets, p.Labels, p.Ready)
		}
		return v
	})
}

// held returns the verdict that the caller gave about the replica.
func held(s *subject) Verdict { return s.Skip[string(s.Pod.UID)] }

func withoutCapacity(s *subject) Verdict {
	return s.ofEach(func(p *clusterstate.Pod) (v Verdict) {
		if !s.MayFit(s.target, p) {
			v = ReasonInsufficientCapacity.because("no %s node has free capacity for the replacement of pod %s", s.target, p.Name)
		}
		return v
	})
}

// ownerEnded prevents moves where the owner creates no replacement.
func ownerEnded(s *subject) (v Verdict) {
	if s.Group.Ended {
		v = ReasonOwnerEnded.because(
			"the owner creates no more pods: it finished, failed, was suspended or deleted, or requests no replicas")
	}
	return v
}

// ofEndedOwner is ownerEnded for a replica of a group of many owners.
func ofEndedOwner(s *subject) Verdict {
	return s.ofEach(func(p *clusterstate.Pod) (v Verdict) {
		if p.Owner != nil && s.Group.EndedOwners[p.Owner.UID] {
			v = ReasonOwnerEnded.because("%s %s creates no more pods: it finished, failed, was suspended or deleted, or requests no replicas",
				p.Owner.Kind, p.Owner.Name)
		}
		return v
	})
}

func countsAsFailure(s *subject) (v Verdict) {
	if s.Group.CountsFailures {
		v = ReasonCountsAsFailure.because("restartPolicy is not Always, so an evicted pod counts as failed "+
			"(a Job whose podFailurePolicy ignores disruptions opts in with the annotation %s: \"true\")", v1alpha1.EvictJobPodsAnnotation)
	}
	return v
}

func fixedNode(s *subject) (v Verdict) {
	if s.Group.FixedNode != "" {
		v = ReasonFixedNode.because("the pod template names node %s, so a replacement runs there again", s.Group.FixedNode)
	}
	return v
}

// atMaxUnavailable is for rollouts that make no progress: the replicas of the old revision, all Ready, carry the load alone.
func atMaxUnavailable(s *subject) (v Verdict) {
	if r := s.Group.Rollout; r.Rolling && r.Unavailable > 0 && r.Unavailable >= r.MaxUnavailable {
		v = ReasonMaxUnavailable.because("%s unavailable in a rollout, and its maxUnavailable is %d",
			display.Clause(r.Unavailable, "replica", "is", "are"), r.MaxUnavailable)
	}
	return v
}
