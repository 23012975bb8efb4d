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
	// preempt: DefaultPreemption may have its turn, on nodes of the slot's type.
	preempt bool
	message string
}

// failure is an attempt that found no node.
type failure struct {
	attempt ledger.Attempt
	wants   capacity.Type // the type of the slot that was tried
	// noRoomSince is when the pod was first found to have no room on its type,
	// now if that is this moment.
	noRoomSince, now time.Time
	// growingTo is the size to which a rollout grows the group, 0 if none does.
	growingTo int
}

// after decides what follows when an attempt found no node.
func after(f failure, p *policy.Policy) next {
	t := f.wants
	switch f.attempt.Stage {
	case ledger.StageSample:
		return next{attempt: ledger.Attempt{Stage: ledger.StageType, Anew: f.attempt.Anew}, retry: true, message: "trying all " + t.String() + " nodes next"}
	case ledger.StageType:
		if f.growingTo > 0 {
			return next{
				attempt: ledger.Attempt{Stage: ledger.StageAhead, NoRoomSince: f.noRoomSince, Below: f.growingTo}, retry: true,
				message: "the rollout is not complete: trying a later slot that is " + t.Other().String() + " next",
			}
		}
		return afterType(f, p)
	case ledger.StageAhead:
		f.wants = t.Other() // what was tried is the slot of the other type
		n := afterType(f, p)
		if n.preempt { // not here: the nodes that were tried are those of the other type
			n.attempt.Stage, n.retry, n.preempt = ledger.StagePreempt, true, false
		}
		return n
	default:
		n := next{attempt: ledger.Attempt{Stage: ledger.StageType, NoRoomSince: f.noRoomSince}, preempt: true}
		if f.growingTo > 0 {
			n.wake = f.now.Add(aheadAgain)
		}
		return n
	}
}

// aheadAgain is when a pod of a growing revision that found no room on either
// type is tried again. Its last attempt looked at one type only, so the queue
// does not know of room that came on the other meanwhile.
const aheadAgain = 2 * time.Second

// afterType decides whether a pod that found no node of its type may borrow.
func afterType(f failure, p *policy.Policy) next {
	t := f.wants
	stay := ledger.Attempt{Stage: ledger.StageType, NoRoomSince: f.noRoomSince}
	wait, allowed := p.MayBorrow(t)
	if !allowed {
		return next{attempt: stay, preempt: true}
	}
	if over := f.noRoomSince.Add(wait); f.now.Before(over) {
		return next{attempt: stay, wake: over, message: "waiting for " + t.String() + ", may borrow " + t.Other().String() + " in " + over.Sub(f.now).Round(time.Second).String()}
	}
	return next{
		attempt: ledger.Attempt{Stage: ledger.StageBorrow, NoRoomSince: f.noRoomSince}, retry: true,
		message: "trying " + t.Other().String() + " nodes next",
	}
}
