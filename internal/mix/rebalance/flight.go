// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// fleeChecks are what keeps replicas on a node that departs. They are lost with it, so that no time and no budget is a reason to wait.
var fleeChecks = []check{switchedOff, paused, notInCanary, ownerEnded, otherScheduler, fixedNode, rollingOut}

// maxFlights bounds the flights of one evaluation, for which all other workloads wait.
const maxFlights = 10

// mayFlee reports whether replicas may leave nodes that depart, by releases or with placeholders.
func (in *Input) mayFlee() bool {
	return (in.Settings.Strategy.releases() || in.Provisions()) && in.Effect(Verdict{Reason: ReasonMove}).Reason == ReasonMove &&
		in.stays().Reason == nil
}

// stays is why replicas stay on a node that departs, without a reason if they may leave it.
func (in *Input) stays() Verdict { return first(fleeChecks, &subject{Input: in}) }

// flee returns the next action about a replica on a node that departs, or whose eviction is requested: once it is released, its owner
// creates the replacement. Where the node, or the request, waits, the replica is released once there is a place for the replacement. Where
// the node does not, an autoscaler may launch one in the time that is left. A placeholder requests the capacity where the mix allows
// placeholders.
func (in *Input) flee() (a Action, ok bool) {
	if in.For.flown >= maxFlights || !in.mayFlee() {
		return a, false
	}
	for i := range in.Group.Assignments {
		s := &in.Group.Assignments[i]
		step := in.fleeing(s)
		if step == StepWait {
			continue
		}
		v := Verdict{Reason: ReasonMove, Pod: s.Pod, Target: in.targetOf(s), Message: departureOf(s)}
		a = Action{
			Step: step, Of: in.For.Entry, Verdict: v, Flees: true, Requested: !departs(s), Proves: in.leaves(s) && in.waits(s),
			turns: in.For.turns,
		}
		if h := in.placeholderOf(s.Pod.UID); a.Proves && h != nil {
			a.Placeholder, a.Handover, a.turns = h, HandoverOf(&in.Group, h.Target), Without(a.turns, *h)
		}
		return a, true
	}
	return a, false
}

// departures are the causes for which replicas leave a node before it is gone, with a sentence about the node. A node that is given up as
// broken is not among them: nothing serves there.
var departures = map[capacity.Cause]string{
	capacity.Interruption: "the provider is about to reclaim node %s",
	capacity.Autoscaler:   "an autoscaler is about to remove node %s",
	capacity.Maintenance:  "node %s is being drained",
	capacity.Deletion:     "node %s is being deleted",
}

func departureOf(s *clusterstate.Assignment) string {
	if !departs(s) {
		return "an EvictionRequest names the pod"
	}
	return fmt.Sprintf(departures[s.Cause], s.Pod.Node)
}

// fleeing is the next step about a replica if it flees, StepWait if it does not.
func (in *Input) fleeing(s *clusterstate.Assignment) Step {
	kept, _ := s.Pod.Keeps(in.Cluster.Now)
	held := in.For.Now.Before(in.For.Flights[s.Pod.UID]) // of the evaluation: one that failed in it is not tried again in it
	switch {
	case !departs(s) && !in.requested(s), held:
		return StepWait
	case kept == "" && in.leaves(s):
		return in.leaving(s)
	case in.provisionsFor(s) && in.placeholderOf(s.Pod.UID) == nil:
		return StepProvision
	}
	return StepWait
}

// leaving is the next step about a replica that is released from a node that departs.
func (in *Input) leaving(s *clusterstate.Assignment) Step {
	if in.waits(s) {
		v, h := in.without(s), in.placeholderOf(s.Pod.UID)
		switch {
		case v.Reason == ReasonInsufficientCapacity && h == nil && in.provisionsFor(s):
			return StepProvision
		case v.Reason != nil, h != nil && !h.Running:
			return StepWait
		}
	}
	if in.For.surveyed[s.Pod.UID] {
		return StepFlee
	}
	return StepSurvey
}

// leaves reports whether a replica on a node that departs is released, as far as is known.
func (in *Input) leaves(s *clusterstate.Assignment) bool {
	why, _ := in.notReleasable(s, true)
	return in.Settings.Strategy.releases() && why == ""
}

// placeholderOf is the placeholder of a replica, nil if it has none.
func (in *Input) placeholderOf(replica types.UID) *Placeholder {
	i := slices.IndexFunc(in.For.Placeholders, func(h Placeholder) bool { return h.Replica == replica })
	if i < 0 {
		return nil
	}
	return &in.For.Placeholders[i]
}

// departs reports whether a replica runs on a node that is about to go.
func departs(s *clusterstate.Assignment) bool {
	return s.Place == clusterstate.Departing && departures[s.Cause] != ""
}

// waits reports whether a node that departs, or a request for the eviction, waits until the replica may go. A released replica ends at its
// deadline, so it is not released there before its replacement has a place. A drain evicts, and so do autoscalers. A node that is being
// deleted may be gone at any moment, unless whoever deletes it drains it first, as Karpenter does: the budget of the floor holds that.
func (in *Input) waits(s *clusterstate.Assignment) bool {
	switch {
	case !departs(s), s.Cause == capacity.Maintenance, s.Cause == capacity.Autoscaler:
		return true
	case s.Cause == capacity.Deletion:
		_, held := s.Pod.Labels[v1alpha1.FloorLabel]
		return held && in.Group.Governing.ProtectFloor // labels stay when the setting is removed
	}
	return false
}

// without is why a replica on a node that waits is not released yet, as far as is known without a proof. What was released before has to be
// replaced first: a snapshot does not have these replacements before they have a node.
func (in *Input) without(s *clusterstate.Assignment) (v Verdict) {
	target := in.targetOf(s)
	hold, landing, h := in.For.Unplaced[target], in.For.Before.Landing, in.placeholderOf(s.Pod.UID)
	switch left := len(in.Group.Leaving); {
	case in.For.Now.Before(landing):
		v = ReasonStaleView.until(landing, "other replicas were released a moment ago")
	case left > 0:
		v = ReasonNotReady.because("%s beside the replacement", display.Clause(left, "released replica", "still runs", "still run"))
	case in.For.Now.Before(hold.Until) && (h == nil || !h.Running || hold.Verdict.Reason != ReasonInsufficientCapacity):
		v = hold.Verdict
	case h == nil && !in.MayFit(target, s.Pod):
		v = ReasonInsufficientCapacity.because("no %s node has free capacity for its replacement", target)
	}
	v.Pod, v.Target = s.Pod, target
	return v
}

// stranded is why a replica stays on a node that departs and waits, without a reason if none does. It takes the place of a verdict about
// moves, but for those about the budgets of the cluster: workloads with these have their turn.
func (in *Input) stranded(moves Verdict) Verdict {
	if moves.Reason == ReasonClusterBudget || moves.Reason == ReasonClusterPace || !in.mayFlee() {
		return moves
	}
	for i := range in.Group.Assignments {
		s := &in.Group.Assignments[i]
		if !departs(s) && !in.requested(s) || !in.waits(s) || !in.leaves(s) || in.placeholderOf(s.Pod.UID) != nil {
			continue
		}
		kept, _ := s.Pod.Keeps(in.Cluster.Now)
		if v := in.without(s); v.Reason != nil && kept == "" {
			v.Message = fmt.Sprintf("%s, and pod %s is not released: %s", departureOf(s), s.Pod.Name, v.Message)
			v.RetryAt = earlier(v.RetryAt, moves.RetryAt)
			return v
		}
	}
	return moves
}

// provisionsFor reports whether a placeholder requests the capacity for the replacement of a replica on a node that departs. An autoscaler
// that removes a node has the capacity already. A replacement that goes to the other type at once would find the capacity taken: the
// placeholder ends after it is created.
func (in *Input) provisionsFor(s *clusterstate.Assignment) bool {
	return in.Provisions() && (s.Cause == capacity.Interruption || s.Cause == capacity.Maintenance) &&
		HandoverOf(&in.Group, in.targetOf(s)) != BeforeEviction
}

// fled treats a replica that was released as gone. One that was not is tried again after a while.
func (w *Evaluation) fled(a *Action, r *Result) {
	switch {
	case r.Unreleasable != "":
		w.keep(r.Unreleasable, true)
	case r.Err == nil:
		w.released()
		w.Group = w.Group.Going(map[types.UID]bool{a.Verdict.Pod.UID: true})
		if a.Proves {
			w.Landing = w.Now.Add(HoldMisplaced)
		}
	}
}

// holdFlight has a replica on a node that departs wait for a while. What holds it back from a move is no reason for that.
func (w *Evaluation) holdFlight(replica types.UID, d time.Duration) {
	flights := map[types.UID]time.Time{replica: w.Now.Add(min(d+HoldChanged, HoldMisplaced))}
	for uid, until := range w.Flights {
		if _, known := flights[uid]; !known && w.Now.Before(until) {
			flights[uid] = until
		}
	}
	w.Flights = flights
}

// lacksPlace reports whether an error is about the place of a replacement, and so about all that go to the same type.
func lacksPlace(err error) bool {
	o := ObstacleOf(err)
	return o.Unproven || o.Reason == ReasonInsufficientCapacity || o.Reason == ReasonQuota
}

// strand has the replicas wait whose replacements go to the same type. Nodes that depart wait for capacity: it is looked for more often
// than for a move.
func (w *Evaluation) strand(a *Action, err error) {
	hold, longest := w.hold(a.Verdict, err), HoldMisplaced
	if ObstacleOf(err).Unproven {
		longest = HoldReplacement
	}
	if latest := w.Now.Add(longest); hold.Until.After(latest) {
		hold.Until, hold.Verdict.RetryAt = latest, latest
	}
	unplaced := maps.Clone(w.Unplaced)
	if unplaced == nil {
		unplaced = map[capacity.Type]Hold{}
	}
	unplaced[a.Verdict.Target] = *hold
	w.Unplaced = unplaced
}
