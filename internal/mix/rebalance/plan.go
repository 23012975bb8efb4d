// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
)

// Action is what is done next about a replica of a workload, or about its placeholder.
type Action struct {
	Step Step
	// Of is the workload as it is planned for.
	Of Entry
	// Verdict is about the replica, and has the reason of the action.
	Verdict Verdict
	// Placeholder is that of the replica, nil where it has none, and Handover when it gives its capacity away.
	Placeholder *Placeholder
	Handover    Handover
	// Move is the move of a replica that may be evicted, Record is what is recorded of the workload before it begins, Selector
	// selects all pods of the workload, and ByScale is set where only the owner has the number of replicas or the restart policy.
	Move     Move
	Record   Record
	Selector labels.Selector
	ByScale  bool
	// Proof is that of the capacity for the replacement, of a replica that is evicted, Pod the replica as it is now, and
	// Overlapping is set where more than one PodDisruptionBudget selects it.
	Proof       *Proof
	Pod         *corev1.Pod
	Overlapping bool
	// Surge is set where the replica is released, and evicted once its replacement is available.
	Surge bool
	// Flees is set where the replica runs on a node that departs, or its eviction is requested; Requested where only that is so. Proves is
	// set where that waits: the replica is released only once the capacity for its replacement is proven.
	Flees, Requested, Proves bool
	// Obstacle is why a replica is held.
	Obstacle error
	// Waiting are the placeholders of a workload that rests, with what keeps their replicas, and Due is when time alone will
	// have changed that.
	Waiting []Placeholder
	Due     time.Time
	// turns are the placeholders about which nothing was decided yet.
	turns []Placeholder
}

// Evicts reports whether the eviction is what the action leads to next, and no placeholder has to be deleted before it.
func (a *Action) Evicts() bool {
	return a.Handover != BeforeEviction || a.Proof != nil && a.Proof.Released
}

// beside reports whether an error means that the replacement cannot run beside its replica, and may in its place.
func (a *Action) beside(err error) bool {
	o := ObstacleOf(err)
	return a.Surge && (o.Reason == ReasonInsufficientCapacity || o.Reason == ReasonQuota || o.Reason == ReasonReplacementRefused)
}

// Members are the pods that go: the one of the verdict, and the others of its unit.
func (a *Action) Members() []*clusterstate.Pod { return membersWith(&a.Of.Group, a.Verdict.Pod) }

// membersWith are the pods of the replica that a pod belongs to.
func membersWith(g *clusterstate.Group, pod *clusterstate.Pod) []*clusterstate.Pod {
	for i := range g.Assignments {
		if s := &g.Assignments[i]; s.Has(pod.UID) {
			return s.Members()
		}
	}
	return []*clusterstate.Pod{pod}
}

// Placed is a replacement with the node where it fits.
type Placed struct {
	// Of is the UID of the pod that it replaces.
	Of types.UID
	// Created and Admitted are as in Proof.
	Created, Admitted *corev1.Pod
	Node              string
}

// Proof is that there is capacity for the replacement of a replica.
type Proof struct {
	// Created is the replacement as its owner creates it, Admitted as the API server would store it. From names the owner and
	// the field with the template.
	Created, Admitted *corev1.Pod
	From              string
	// Node is where it fits.
	Node string
	// Others are the replacements of the other pods of its unit.
	Others []Placed
	// Released is set once the placeholder was deleted that held the capacity.
	Released bool
	// Live are the pods of the workload that the API server had after that, and Scale is that of the owner, nil where the
	// cluster state has the number of replicas.
	Live  []corev1.Pod
	Scale *Scale
}

// Result is what has come of an action.
type Result struct {
	// Err is why it was not carried out, nil if it was. Refused is set where that is the answer to the eviction.
	Err     error
	Refused bool
	// Admitted is set where the API server admits the replacement.
	Admitted bool
	// Proof has the next plan decide again whether the replica is evicted.
	Proof *Proof
	// Unreleasable is what was read to be against the release of the replica, "" for nothing.
	Unreleasable string
	// Node is where the replacement of a replica fits that was released from a node that departs, "" where that was not proven.
	Node string
	// Began is the move that began, or that may have begun.
	Began *Move
	// Created is the placeholder that was created.
	Created *corev1.Pod
	// Placeholder is how the placeholder of the action ended, "" if it did not.
	Placeholder Ended
	// Eviction is what came of the eviction, "" if there was none.
	Eviction string
}

// Ended is how a placeholder ended.
type Ended string

const (
	// Used means that its replica was evicted, or is about to be.
	Used Ended = "used"
	// Dropped means that it is not needed any more.
	Dropped Ended = "dropped"
	// Expired means that it was lost, or too late.
	Expired Ended = "expired"
)

// Plan returns what is done next about a workload. Once that was done, there is another plan, until one ends with StepRest.
// The placeholders have their turns first, each one time in an evaluation.
func Plan(in *Input) []Action {
	switch {
	case in.For.Invalid != nil:
		return in.planNothing()
	case in.For.proven != nil:
		return []Action{in.confirm(*in.For.proven)}
	}
	if a, ok := in.flee(); ok {
		return []Action{a}
	}
	if a, ok := in.turn(); ok {
		return []Action{a}
	}
	v := Choose(in)
	if v.Reason == ReasonMove {
		step, effect := StepMove, in.Effect(v)
		switch {
		case effect.Reason != ReasonMove:
			step = StepReport
		case in.unsurveyed(v.Pod.UID):
			step = StepSurvey
		}
		return []Action{in.action(step, effect)}
	}
	if lacking, ok := Provision(in); ok {
		step := StepProvision
		if in.unsurveyed(lacking.Pod.UID) {
			step = StepSurvey
		}
		return []Action{in.action(step, lacking)}
	}
	return []Action{in.rest(in.stranded(v))}
}

// turn returns what is done about the first placeholder that has not had its turn, unless it waits.
func (in *Input) turn() (a Action, ok bool) {
	for i := range in.For.turns {
		h, left := &in.For.turns[i], in.For.turns[i+1:]
		step, v := in.stepOf(h)
		switch {
		case step == StepWait:
			continue
		case step == StepMove && in.unsurveyed(v.Pod.UID):
			step, left = StepSurvey, in.For.turns[i:]
		}
		a = in.action(step, v)
		a.Placeholder, a.Handover, a.turns = h, HandoverOf(&in.Group, h.Target), left
		return a, true
	}
	return a, false
}

func (in *Input) action(step Step, v Verdict) Action {
	a := Action{Step: step, Of: in.For.Entry, Verdict: v}
	a.Surge = v.Pod != nil && in.surgesPod(v.Pod.UID)
	if step == StepMove {
		now := in.Cluster.Now
		a.Move = NewMove(&in.Group, v, now)
		a.Move.Released = a.Surge
		a.Move.Requested = in.Cluster.Requests && !a.Surge && a.Move.Size == 0 && v.Pod.Responds()
		with := in.For.With(a.Move)
		a.Record, a.Selector, a.ByScale = RecordOf(&with, now), SelectorOf(&in.Group), ByScale(&in.Group) || a.Move.Size > 0
	}
	return a
}

// confirm decides again about a replica right before its eviction: with the pods of the workload that the API server has now, and
// with the grace, the storms and the budgets of this moment, since the proof of capacity may have taken long.
func (in *Input) confirm(a Action) Action {
	a.Of, a.Overlapping = in.For.Entry, len(Selecting(in.Budgets, a.Verdict.Pod.Labels)) > 1
	a.Move.Started = in.Cluster.Now // the proof does not count as time in which the replacement could have come
	if a.Pod, a.Obstacle = in.stillMoves(&a); a.Obstacle != nil {
		a.Step = StepHold
		return a
	}
	switch a.Step = StepEvict; {
	case !a.Evicts():
		a.Step = StepRelease
	case a.Surge:
		a.Step = StepSurge
	}
	return a
}

// stillMoves returns the replica of an action as it is now, or an obstacle. A workload has none of its first move only if it
// has as many pods as the scale of its owner requests: pods that were missing before are recorded nowhere else.
func (in *Input) stillMoves(a *Action) (*corev1.Pod, error) {
	g, p := &in.Group, a.Proof
	if v := p.Scale.Missing(g, in.History.Had); v.Reason != nil {
		return nil, v.Reason.Obstacle(HoldRefused, "%s", v.Message)
	}
	if what := Differs(g, Moved(in.For.Moves), p.Live); what != "" {
		return nil, ReasonStaleView.Obstacle(HoldChanged, "%s, which the watch has not shown yet", what)
	}
	if now := in.again(a); now.Reason != ReasonMove {
		return nil, &Obstacle{Reason: now.Reason, For: HoldChanged, Until: now.RetryAt, Message: now.Message}
	}
	known := a.Verdict.Pod
	for i := range p.Live {
		if Unchanged(&p.Live[i], known) {
			return &p.Live[i], nil
		}
	}
	return nil, Changed(known)
}

// planNothing is for a workload whose settings cannot be read. Where nothing has to move, nothing is blocked.
func (in *Input) planNothing() (list []Action) {
	v := Verdict{Reason: ReasonInvalidWindow, Message: in.For.Invalid.Error()}
	if in.History.WrongSince.IsZero() {
		v = Verdict{Reason: ReasonOnTarget}
	}
	for i := range in.For.Placeholders {
		list = append(list, Action{Step: StepDrop, Verdict: v, Placeholder: &in.For.Placeholders[i]})
	}
	return append(list, Action{Step: StepRest, Verdict: v})
}

// rest leaves the workload with a verdict. What was held back in this evaluation counts for the placeholders, for there may be
// no other one before the hold is over.
func (in *Input) rest(v Verdict) Action {
	a := Action{Step: StepRest, Verdict: v}
	a.Waiting = Waiting(in.For.Placeholders, func(h Placeholder) Verdict {
		_, about := in.stepOf(&h)
		a.Due = earlier(a.Due, about.RetryAt)
		return about
	})
	return a
}

// stepOf is the next step with a placeholder, and the verdict about its replica.
func (in *Input) stepOf(h *Placeholder) (Step, Verdict) {
	one := *in
	if held, there := in.For.Held[string(h.Replica)]; there {
		one.Skip = maps.Clone(in.Skip)
		one.Skip[string(h.Replica)] = held.Verdict
	}
	return one.Next(h.Replica, h.Holder, in.For.Limits.Timeout)
}

// again is the verdict of now about the replica of an action.
func (in *Input) again(a *Action) (v Verdict) {
	if a.Placeholder == nil {
		return in.Of(a.Verdict.Pod.UID)
	}
	_, v = in.stepOf(a.Placeholder)
	return v
}
