// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"slices"
	"time"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// ending is a move that is over.
type ending struct {
	move    workloads.Move
	outcome outcome
	// ready of want replicas were Ready then.
	ready, want int
}

// advance brings an entry up to what its group is now. It is a pure function: the entry that it returns shares nothing
// with the old one that changes.
func advance(old workloads.Entry, g clusterstate.Group, now time.Time, l limits) (e workloads.Entry, ended []ending) {
	e = old
	e.Group = g
	wrong := len(g.WrongSide())
	e.WrongSince = since(old.WrongSince, wrong > 0, now)
	e.RollingSince = since(old.RollingSince, g.Rollout.Rolling, now)
	if wrong == 0 && len(old.Moves) == 0 {
		e.Failures, e.RetryAt = 0, time.Time{}
	}
	e.Had = rebalance.MustBeBack(&g, old.Had)
	want, ready := max(g.Replicas, e.Had), rebalance.Ready(&g)
	e.Moves = nil
	for _, m := range old.Moves {
		switch o := judge(m, g, wrong, want, now, l); o {
		case moving:
			m.Slow = now.Sub(m.Started) >= rebalance.SlowAfter
			e.Moves = append(e.Moves, m)
			continue
		case succeeded:
			e.Failures, e.RetryAt = 0, time.Time{}
			ended = append(ended, ending{m, o, ready, want})
		case failed, timedOut:
			l.fail(&e, now)
			ended = append(ended, ending{m, o, ready, want})
		default:
			ended = append(ended, ending{m, o, ready, want})
		}
	}
	if len(e.Moves) == 0 && ready >= want {
		e.Had = 0
	}
	e.Held = nil
	for uid, h := range old.Held {
		if now.Before(h.Until) {
			if e.Held == nil {
				e.Held = map[string]workloads.Hold{}
			}
			e.Held[uid] = h
		}
	}
	return e, ended
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

// limits are the times of a move.
type limits struct {
	backoff, maxBackoff, timeout time.Duration
}

// fail makes a workload rest after a move that failed.
func (l limits) fail(e *workloads.Entry, now time.Time) {
	e.Failures++
	e.RetryAt = now.Add(rebalance.Backoff(l.backoff, l.maxBackoff, e.Failures))
}

// outcome is how a move ended.
type outcome string

const (
	moving    outcome = ""
	succeeded outcome = "succeeded"
	// failed: every replica is Ready again, and as many as before are on the wrong side.
	failed outcome = "failed"
	// timedOut: not every replica is Ready again.
	timedOut outcome = "timed-out"
	// abandoned: the owner makes no more pods.
	abandoned outcome = "abandoned"
	// notEvicted: the API server did not carry the eviction out.
	notEvicted outcome = "not-evicted"
	// notProvisioned: no placeholder came to hold the room, and nothing was evicted.
	notProvisioned outcome = "not-provisioned"
)

// judge returns the outcome of a move, if it is over. It ends when the evicted pod is gone from its
// group and the group is whole again: as many replicas as wanted, all Ready.
// Pods that still terminate do not count: their replacements do.
func judge(m workloads.Move, g clusterstate.Group, wrong, want int, now time.Time, l limits) outcome {
	there := slices.ContainsFunc(g.Seats, func(s clusterstate.Seat) bool { return s.Pod.UID == m.UID })
	whole := !there && len(g.Seats) >= want && rebalance.Ready(&g) == len(g.Seats)
	switch {
	case g.Ended:
		return abandoned
	case there && m.Doubtful() && !now.Before(m.DoubtUntil):
		return notEvicted
	case whole && wrong < m.Wrong:
		return succeeded
	case whole:
		return failed
	case now.Sub(m.Started) >= l.timeout:
		return timedOut
	}
	return moving
}
