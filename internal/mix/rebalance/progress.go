// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Outcome is how a move ended.
type Outcome string

const (
	// Moving is the outcome of a move that is not over.
	Moving Outcome = ""
	// Succeeded means that the replacement is on its side.
	Succeeded Outcome = "succeeded"
	// Failed means that every replica is available again, and the replacement is on the wrong side.
	Failed Outcome = "failed"
	// TimedOut means that not every replica is available again.
	TimedOut Outcome = "timed-out"
	// Abandoned means that the owner creates no more pods.
	Abandoned Outcome = "abandoned"
	// NotEvicted means that the API server did not carry the eviction out.
	NotEvicted Outcome = "not-evicted"
	// NotProvisioned means that no placeholder came to hold the capacity, and nothing was evicted.
	NotProvisioned Outcome = "not-provisioned"
)

// NewMove is the move of a replica that is about to be evicted.
func NewMove(g *clusterstate.Group, v Verdict, now time.Time) Move {
	before := g.Assignments // the move keeps nothing else of what it was planned by
	m := Move{
		UID: v.Pod.UID, Namespace: v.Pod.Namespace, Name: v.Pod.Name, Started: now, Target: v.Target,
		Slot: SlotOfReplacement(g, v.Pod.UID), Before: &before,
	}
	for i := range g.Assignments {
		s := &g.Assignments[i]
		for _, p := range s.Members() {
			m.Newest = max(m.Newest, createdAt(p))
		}
		if len(s.Pods) > 1 && s.Has(v.Pod.UID) {
			m.Unit, m.Size = s.Unit, len(s.Pods)
		}
	}
	return m
}

// wasThere reports whether a pod was there when a move began.
func (m *Move) wasThere(p *clusterstate.Pod) bool {
	if m.Before == nil {
		return createdAt(p) <= m.Newest
	}
	return slices.ContainsFunc(*m.Before, func(s clusterstate.Assignment) bool { return s.Has(p.UID) })
}

// goes reports whether pods of a unit that goes as a whole are still there: its operator ends them one after the other.
func (m *Move) goes(s *clusterstate.Assignment) bool {
	return m.Size > 0 && s.Unit == m.Unit && slices.ContainsFunc(s.Members(), m.wasThere)
}

// lacks reports whether a unit that went as a whole is not whole again.
func (m *Move) lacks(g *clusterstate.Group) bool {
	return m.Size > 0 && slices.ContainsFunc(g.Assignments,
		func(s clusterstate.Assignment) bool { return s.Unit == m.Unit && (len(s.Pods) < m.Size || m.goes(&s)) })
}

// createdAt has the precision of the API.
func createdAt(p *clusterstate.Pod) int64 { return time.Unix(0, p.Created).Unix() }

// Deadline is when a move that has not ended fails. A replacement becomes Ready in the time for a move, and available after it.
func (m *Move) Deadline(g *clusterstate.Group, timeout time.Duration) time.Time {
	return m.Started.Add(timeout + g.MinReady)
}

// judgement is the outcome of a move, with the type that its replacement runs on where that is the wrong one.
type judgement struct {
	outcome Outcome
	on      capacity.Type
}

// judge returns the outcome of each move, moving where it is not over. A move ends when the evicted pod is gone from its
// group and the group is whole again: as many replicas as wanted, all available. Pods that still terminate do not count: their
// replacements do. It is good if its own replacement is on its side, whatever other replicas do meanwhile: a changed mix, a
// lost node or a scale-up that borrows changes the totals as well.
func judge(moves []Move, g *clusterstate.Group, want int, now time.Time, l Limits) []judgement {
	whole := len(g.Assignments) >= want && Available(g, now) == len(g.Assignments)
	list := make([]judgement, len(moves))
	claimed := map[types.UID]bool{}
	// What came after the last move came after those before it, too: the last one has the fewest to choose from.
	for i := len(moves) - 1; i >= 0; i-- {
		m := &moves[i]
		there := slices.ContainsFunc(g.Assignments, func(s clusterstate.Assignment) bool { return s.Has(m.UID) })
		switch {
		case g.Ended:
			list[i].outcome = Abandoned
		case there && m.Doubtful() && !now.Before(m.DoubtUntil):
			list[i].outcome = NotEvicted
		case whole && !there && !m.lacks(g) && !slices.Contains(g.Leaving, m.UID):
			list[i] = judgeReplacement(m, g, claimed)
		case !now.Before(m.Deadline(g, l.Timeout)):
			list[i].outcome = TimedOut
		}
	}
	return list
}

// judgeReplacement judges a move by its replacement, which it claims. Replicas of one owner that are as new are alike: the
// move is good if any of them that no other move claims is on its side. It is good as well if there is none: the owner has
// fewer replicas by now.
func judgeReplacement(m *Move, g *clusterstate.Group, claimed map[types.UID]bool) judgement {
	var wrong *clusterstate.Assignment
	for _, s := range arrivals(m, g) {
		if claimed[s.Pod.UID] {
			continue
		}
		if onItsSide(m, g, s) {
			claimed[s.Pod.UID] = true
			return judgement{outcome: Succeeded}
		}
		wrong = s
	}
	if wrong == nil {
		return judgement{outcome: Succeeded}
	}
	claimed[wrong.Pod.UID] = true
	return judgement{outcome: Failed, on: wrong.On}
}

// onItsSide reports whether a replica runs on the type that a move was for, or on the one that its slot has since the mix was
// changed.
func onItsSide(m *Move, g *clusterstate.Group, s *clusterstate.Assignment) bool {
	if m.Target == capacity.Unknown {
		return s.On == s.Wants
	}
	return s.On == m.Target || s.On == g.Governing.Mix.TypeOf(m.Slot)
}

// arrivals are the replicas that may be the replacement of a move: the one with its name, if there is one, else all that were
// not there before.
func arrivals(m *Move, g *clusterstate.Group) (list []*clusterstate.Assignment) {
	var before map[types.UID]bool
	if m.Before != nil {
		before = make(map[types.UID]bool, len(*m.Before))
		for i := range *m.Before {
			for _, p := range (*m.Before)[i].Members() {
				before[p.UID] = true
			}
		}
	}
	for i := range g.Assignments {
		s := &g.Assignments[i]
		switch {
		// Without the list of an earlier leader, a replica that was created in the same second as the newest one counts.
		case before[s.Pod.UID], before == nil && m.Newest > 0 && createdAt(s.Pod) < m.Newest:
		case s.Pod.Name == m.Name, m.Size > 0 && s.Unit == m.Unit:
			return []*clusterstate.Assignment{s}
		default:
			list = append(list, s)
		}
	}
	return list
}

// Ending is a move that is over.
type Ending struct {
	Move    Move
	Outcome Outcome
	// On is the type that the replacement runs on, of a move that failed.
	On capacity.Type
	// Available of Want replicas were so then.
	Available, Want int
}

// Advance brings an entry up to what its group is now. The entry that it returns shares nothing
// with the old one that changes.
func Advance(old Entry, g clusterstate.Group, now time.Time, l Limits) (e Entry, ended []Ending) {
	e = old
	e.Group = g
	wrong := len(g.WrongSide())
	e.WrongSince = since(old.WrongSince, wrong > 0, now)
	e.RollingSince = since(old.RollingSince, g.Rollout.Rolling, now)
	if wrong == 0 && len(old.Moves) == 0 {
		e.Failures, e.RetryAt, e.Refusal = 0, time.Time{}, Refusal{}
	}
	e.Had = MustBeBack(&g, old.Had)
	want, available := max(g.Replicas, e.Had), Available(&g, now)
	e.Moves = nil
	for i, o := range judge(old.Moves, &g, want, now, l) {
		m := old.Moves[i]
		if o.outcome == Moving {
			m.Slow = now.Sub(m.Started) >= SlowAfter
			e.Moves = append(e.Moves, m)
			continue
		}
		ended = append(ended, Ending{m, o.outcome, o.on, available, want})
	}
	// Of moves that end together, a failure counts whatever the others did.
	if slices.ContainsFunc(ended, func(e Ending) bool { return e.Outcome == Succeeded }) {
		e.Failures, e.RetryAt, e.Refusal = 0, time.Time{}, Refusal{}
	}
	for _, end := range ended {
		if end.Outcome == Failed || end.Outcome == TimedOut {
			l.Failed(&e, end.Move.Started, now)
		}
	}
	if len(e.Moves) == 0 && available >= want {
		e.Had = 0
	}
	e.Held = stillHeld(old.Held, now)
	return e, ended
}

// stillHeld are the holds that are not over, nil for none.
func stillHeld(old map[string]Hold, now time.Time) (held map[string]Hold) {
	for uid, h := range old {
		if now.Before(h.Until) {
			if held == nil {
				held = map[string]Hold{}
			}
			held[uid] = h
		}
	}
	return held
}

// since keeps the time at which something began.
func since(began time.Time, is bool, now time.Time) time.Time {
	switch {
	case !is:
		return time.Time{}
	case began.IsZero():
		return now
	}
	return began
}

// Limits are the times of moves.
type Limits struct {
	Backoff, MaxBackoff, Timeout time.Duration
}

// fail makes a workload rest after a move that failed.
func (l Limits) fail(e *Entry, now time.Time) {
	e.Failures++
	l.rest(e, now)
}

// rest begins the pause after the failures of a workload.
func (l Limits) rest(e *Entry, now time.Time) {
	e.RetryAt = now.Add(Backoff(l.Backoff, l.MaxBackoff, e.Failures))
}

// Failed makes a workload rest after a move or a placeholder that failed. What began before the last failure that counts was decided
// without it: together they count as one. A refused eviction may be forgotten, but not what failed since.
func (l Limits) Failed(e *Entry, began, now time.Time) {
	e.Refusal = Refusal{}
	if e.Failures == 0 || !began.Before(e.FailedAt) {
		e.Failures++
		e.FailedAt = now
	}
	l.rest(e, now)
}

// Moved are the UIDs of the pods of moves. Of a unit whose move an earlier leader began, only one is known.
func Moved(moves []Move) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(moves))
	for i := range moves {
		m := &moves[i]
		if uids[m.UID] = true; m.Size == 0 || m.Before == nil {
			continue
		}
		for j := range *m.Before {
			if s := &(*m.Before)[j]; s.Has(m.UID) {
				for _, p := range s.Members() {
					uids[p.UID] = true
				}
			}
		}
	}
	return uids
}

// Due returns when time alone will have changed something about a workload, zero for never.
func (e *Entry) Due(now time.Time, timeout time.Duration) (next time.Time) {
	next = earlier(e.Verdict.RetryAt, e.MovesDue(now, timeout))
	for _, h := range e.Held {
		next = earlier(next, h.Until)
	}
	for _, until := range e.Flights {
		next = earlier(next, later(until, now))
	}
	for _, h := range e.Unplaced {
		next = earlier(next, later(h.Until, now))
	}
	next = earlier(next, earlier(later(e.KeptFromFlight.Until, now), later(e.Landing, now)))
	if !e.WrongSince.IsZero() || e.Had > 0 {
		next = earlier(next, e.Group.NextAvailable(now))
	}
	for _, h := range e.Placeholders {
		if !h.Seen {
			next = earlier(next, h.Created.Add(Unseen))
		}
		if !h.Slow {
			next = earlier(next, h.Created.Add(SlowAfter))
		}
		next = earlier(next, later(h.Created.Add(timeout), now)) // one for a replica that flees has no timeout
	}
	return next
}

// MovesDue returns when time alone will have changed something about the moves of a workload, zero for never.
func (e *Entry) MovesDue(now time.Time, timeout time.Duration) (next time.Time) {
	for i := range e.Moves {
		m := &e.Moves[i]
		for _, at := range []time.Time{m.Deadline(&e.Group, timeout), m.Started.Add(SlowAfter), m.DoubtUntil} {
			if at.After(now) {
				next = earlier(next, at)
			}
		}
	}
	return next
}

// later is a time that is after now, zero for another one.
func later(at, now time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return time.Time{}
}

// earlier is the earlier one of two times that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
