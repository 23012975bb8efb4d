// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Evaluation is one reconcile of a workload: what was read of it, and what has come of it so far.
type Evaluation struct {
	// Entry is what is remembered of the workload afterwards.
	Entry
	Now    time.Time
	Limits Limits
	// Before is the entry of the last reconcile, or what an earlier leader left; Stored is what the store has. They are not
	// changed.
	Before, Stored Entry
	// Invalid is why the settings cannot be read: then nothing is decided.
	Invalid error
	// Budgets are the PodDisruptionBudgets of the namespace.
	Budgets []DisruptionBudget
	// Requested are the pods of the namespace whose eviction waits for Berth, with when each request was first seen. It is not changed.
	Requested map[types.UID]time.Time
	// Ended are the moves that are over, and not recorded yet.
	Ended []Ending
	// Next is when time alone will have changed something, zero for never.
	Next time.Time
	// Gone is set where the workload has no pods any more, and none will come back, Over where its owner requests no more.
	Gone, Over bool
	// turns are the placeholders about which nothing was decided yet, proven is the move for which capacity was proven last, nil
	// if it was decided about.
	turns  []Placeholder
	proven *Action
	// surveyed are the replicas about whose release it was read what could be against it, and nothing was.
	surveyed map[types.UID]bool
	// flown counts the actions about replicas on nodes that depart.
	flown int
}

// Begin judges the moves of a workload by what its group is now, and adopts the placeholders that are there. With spared, those
// are left alone, and not treated as lost.
func Begin(before, stored Entry, g clusterstate.Group, there []*clusterstate.Pod, spared bool, now time.Time, l Limits) *Evaluation {
	w := &Evaluation{Now: now, Limits: l, Before: before, Stored: stored}
	if len(before.Moves) > 0 {
		g = g.Going(Moved(before.Moves))
	}
	g.MinReady = max(g.MinReady, before.MinReady)
	w.Entry, w.Ended = Advance(before, g, now, l)
	if w.WrongSince.IsZero() {
		w.Unproven = 0
	}
	adopted := []Placeholder(nil)
	if !spared {
		adopted = Adopt(&w.Entry, there, now)
	}
	w.Placeholders, w.turns = adopted, adopted
	return w
}

// Vanished is the evaluation of a workload that has no pods, or no mix, any more. Follows is set while its owner is there, or
// may be.
func Vanished(e Entry, follows bool, now time.Time, l Limits) *Evaluation {
	w := &Evaluation{Entry: e, Now: now, Limits: l, Before: e, Stored: e, Gone: true}
	w.Selecting = nil
	if len(e.Moves) > 0 && follows {
		// Its only replica was moved, and the replacement is about to come: that of a StatefulSet does once the old pod is
		// gone. If the workload was forgotten, so would be that the move failed, and it would be moved again without end.
		w.Group.Assignments, w.Group.Version = nil, 0
		w.Moves = slices.Clone(e.Moves)
		for i := range w.Moves {
			m := &w.Moves[i]
			m.Slow = now.Sub(m.Started) >= SlowAfter
			w.Gone = w.Gone && !now.Before(m.Deadline(&w.Group, l.Timeout))
		}
		w.Next = w.MovesDue(now, l.Timeout)
	}
	// Otherwise another owner may yet replace them. A group that is identified by a name begins anew with the next owner of the name.
	w.Over = w.Gone && (e.Group.Key.Owner() == "" || (e.Group.Counted || e.Group.Ended) && !follows)
	return w
}

// Input is all that a plan for the workload depends on, where so many replicas of its mix are being moved.
func (w *Evaluation) Input(cluster Cluster, ofMix int, mayFit func(capacity.Type, *clusterstate.Pod) bool) *Input {
	in := &Input{
		Cluster: cluster, Settings: w.Settings, Group: w.Group, Budgets: w.Budgets, MayFit: mayFit,
		History: History{
			WrongSince: w.WrongSince, RollingSince: w.RollingSince, InFlight: ofMix,
			Failures: w.Failures, RetryAt: w.RetryAt, Refused: w.Refusal.Reason, Refusal: w.Refusal.Message, Had: w.Had,
			Moving: len(w.Moves), Restart: w.Restart,
		},
		Skip: map[string]Verdict{}, For: w,
	}
	for uid, h := range w.Held {
		if h.Verdict.Reason == ReasonReport && w.Settings.Mode != Report {
			continue // it was held back only to report, and is not any more
		}
		in.Skip[uid] = h.Verdict
	}
	for i := range w.Placeholders {
		in.Skip[string(w.Placeholders[i].Replica)] = w.Placeholders[i].verdict()
	}
	return in
}

// Apply adds what has come of an action.
func (w *Evaluation) Apply(a Action, r Result) {
	w.turns, w.proven = a.turns, nil
	if a.Flees && a.Step != StepSurvey {
		w.flown++
	}
	if r.Proof != nil {
		w.proven, a.Proof = &a, r.Proof
		w.follow(r.Proof.Scale)
	}
	if r.Admitted {
		w.Unproven = 0
	}
	if r.Placeholder != "" {
		w.Placeholders = Without(w.Placeholders, *a.Placeholder)
	}
	if r.Err != nil {
		w.failed(&a, &r)
	}
	w.applyStep(&a, &r)
}

// failed has what an action was about wait after an error.
func (w *Evaluation) failed(a *Action, r *Result) {
	switch {
	case a.Proves && lacksPlace(r.Err):
		w.strand(a, r.Err)
	case a.Flees:
		w.holdFlight(a.Verdict.Pod.UID, ObstacleOf(r.Err).For)
	case a.beside(r.Err) && w.Settings.Strategy == SurgeOrEvict:
		w.keep(r.Err.Error(), false) // it is evicted instead, if the budgets allow it
	default:
		hold := w.hold(a.Verdict, r.Err)
		if r.Refused {
			w.Refuse(hold, w.Budgets, w.Now, w.Limits)
		}
		w.HoldBack(hold)
	}
}

// applyStep adds what is particular to the step of an action.
func (w *Evaluation) applyStep(a *Action, r *Result) {
	switch a.Step {
	case StepReport:
		if r.Err == nil { // it holds for a while: capacity is not proven again and again for a move that is not made
			w.HoldBack(&Hold{Verdict: a.Verdict, Until: w.Now.Add(HoldInsufficientCapacity)})
		}
	case StepSurvey:
		w.survey(a, r)
	case StepEvict, StepSurge:
		if r.Unreleasable != "" {
			w.keep(r.Unreleasable, false)
			return
		}
		w.began(a.Verdict, *r)
	case StepFlee:
		w.fled(a, r)
	case StepDrop:
		w.dropped(a)
	case StepProvision:
		w.provisioned(a.Verdict, *r)
	case StepFail:
		w.Limits.Failed(&w.Entry, a.Placeholder.Created, w.Now)
		h := a.Placeholder
		w.Ended = append(w.Ended, Ending{Move: Move{UID: h.Replica, Name: h.ReplicaName, Target: h.Target}, Outcome: NotProvisioned})
	case StepRest:
		w.Verdict, w.Placeholders = a.Verdict, a.Waiting
		w.Next = earlier(w.Next, earlier(a.Due, w.Due(w.Now, w.Limits.Timeout)))
		if w.flown >= maxFlights { // others may be left
			w.Next = w.Now
		}
	}
}

// began adds a move that began, if one did.
func (w *Evaluation) began(v Verdict, r Result) {
	if r.Err == nil {
		for _, p := range membersWith(&w.Group, v.Pod) {
			if r.Began == nil || !r.Began.Released { // which is still there
				w.Budgets = Spend(w.Budgets, p.Labels, p.Ready)
			}
		}
		w.Refusal = Refusal{}
	}
	if r.Began != nil {
		if r.Began.Released && r.Err == nil {
			w.released()
		}
		w.Entry = w.With(*r.Began)
		w.Group = w.Group.Going(Moved(w.Moves))
	}
}

// With returns the entry with another move.
func (e *Entry) With(m Move) Entry {
	with := *e
	if with.Had == 0 {
		with.Had = len(e.Group.Assignments)
	}
	with.Moves = append(slices.Clone(e.Moves), m)
	return with
}

// dropped has a replica on a node that departs, whose placeholder was lost, wait: another one is not created at once.
func (w *Evaluation) dropped(a *Action) {
	if a.Placeholder.Lost {
		w.holdFlight(a.Placeholder.Replica, HoldMisplaced)
	}
}

// provisioned adds a placeholder that was created, if one was.
func (w *Evaluation) provisioned(v Verdict, r Result) {
	if r.Created == nil {
		return
	}
	w.Placeholders = append(slices.Clone(w.Placeholders), Placeholder{
		UID: r.Created.UID, Namespace: r.Created.Namespace, Name: r.Created.Name, Replica: v.Pod.UID, ReplicaName: v.Pod.Name,
		Holder: Holder{Target: v.Target, Created: w.Now},
	})
	w.Held = maps.Clone(w.Held) // that there is no capacity is what the placeholder is for
	delete(w.Held, string(v.Pod.UID))
}
