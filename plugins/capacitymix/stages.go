// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"time"

	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/policy"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// next is what follows from a failed attempt to place a pod.
type next struct {
	attempt ledger.Attempt
	// retry: try the next stage at once.
	retry bool
	// wake: when to try again although nothing happened; zero for never.
	wake time.Time
	// preempt: DefaultPreemption may have its turn.
	preempt bool
	message string
}

// after decides what follows when the attempt of a pod that wants type t found
// no node. noRoomSince is when the pod was first found to have no room on its
// type, now if that is this moment.
func after(a ledger.Attempt, t capacity.Type, p *policy.Policy, noRoomSince, now time.Time) next {
	switch a.Stage {
	case ledger.StageSample:
		return next{attempt: ledger.Attempt{Stage: ledger.StageType}, retry: true, message: "trying all " + t.String() + " nodes next"}
	case ledger.StageType:
		return afterType(t, p, noRoomSince, now)
	case ledger.StageBorrow:
		return next{
			attempt: ledger.Attempt{Stage: ledger.StagePreempt, NoRoomSince: noRoomSince}, retry: true,
			message: t.Other().String() + " nodes have no room either",
		}
	default:
		return next{attempt: ledger.Attempt{Stage: ledger.StageType, NoRoomSince: noRoomSince}, preempt: true}
	}
}

// afterType decides whether a pod that found no node of its type may borrow.
func afterType(t capacity.Type, p *policy.Policy, noRoomSince, now time.Time) next {
	stay := ledger.Attempt{Stage: ledger.StageType, NoRoomSince: noRoomSince}
	wait, allowed := p.MayBorrow(t)
	if !allowed {
		return next{attempt: stay, preempt: true}
	}
	if over := noRoomSince.Add(wait); now.Before(over) {
		return next{attempt: stay, wake: over, message: "waiting for " + t.String() + ", may borrow " + t.Other().String() + " in " + over.Sub(now).Round(time.Second).String()}
	}
	return next{
		attempt: ledger.Attempt{Stage: ledger.StageBorrow, NoRoomSince: noRoomSince}, retry: true,
		message: "trying " + t.Other().String() + " nodes next",
	}
}
