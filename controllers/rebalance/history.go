// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"time"

	"berth.dev/berth/controllers/board"
	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/rebalance"
)

// observe brings an entry up to what its group is now. It is a pure function:
// the entry that it returns shares nothing with the old one that changes.
func observe(old board.Entry, g fleet.Group, now time.Time, l limits) (e board.Entry, ended []outcome) {
	e = old
	e.Group = g
	wrong := len(g.WrongSide())
	e.WrongSince = since(old.WrongSince, wrong > 0, now)
	e.RollingSince = since(old.RollingSince, g.Rollout.Rolling, now)
	if wrong == 0 && len(old.Moves) == 0 {
		e.Failures, e.RetryAt = 0, time.Time{}
	}
	e.Moves = nil
	for _, m := range old.Moves {
		switch o := judge(m, g, wrong, now, l); o {
		case moving:
			e.Moves = append(e.Moves, m)
		case succeeded:
			e.Failures, e.RetryAt = 0, time.Time{}
			ended = append(ended, o)
		default:
			l.fail(&e, now)
			ended = append(ended, o)
		}
	}
	e.Held = nil
	for uid, h := range old.Held {
		if now.Before(h.Until) {
			if e.Held == nil {
				e.Held = map[string]board.Hold{}
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
func (l limits) fail(e *board.Entry, now time.Time) {
	e.Failures++
	e.RetryAt = now.Add(rebalance.Backoff(l.backoff, l.maxBackoff, e.Failures))
}

// outcome is how a move ended.
type outcome string

const (
	moving    outcome = ""
	succeeded outcome = "succeeded"
	// failed: the replacement is Ready, and as many replicas as before are on the wrong side.
	failed outcome = "failed"
	// timedOut: the replacement is not Ready.
	timedOut outcome = "timed-out"
	// notProvisioned: no placeholder came to hold the room, and nothing was evicted.
	notProvisioned outcome = "not-provisioned"
)

// judge says how a move stands. It ends when the evicted pod is gone from its
// group and the group is whole again, with every replica Ready.
func judge(m board.Move, g fleet.Group, wrong int, now time.Time, l limits) outcome {
	whole := len(g.Seats) >= g.Replicas && g.Terminating == 0
	for _, s := range g.Seats {
		whole = whole && s.Place == fleet.Settled && s.Pod.Ready && s.Pod.UID != m.UID
	}
	switch {
	case whole && wrong < m.Wrong:
		return succeeded
	case whole:
		return failed
	case now.Sub(m.Started) >= l.timeout:
		return timedOut
	}
	return moving
}
