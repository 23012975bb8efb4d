// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"strings"
	"time"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
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
	// nominated: the pod was tried on the nodes of its type only, since preemption
	// had chosen one for it; terminating: pods that it preempted are not gone yet.
	nominated, terminating bool
}

// victimsTerminateWithin bounds the time from the turn of preemption until the
// pods that it chose are seen to terminate: it deletes them in the background.
const victimsTerminateWithin = 5 * time.Second

// after decides what follows when an attempt found no node.
func after(f failure, p *policy.Policy) next {
	t := f.wants
	switch f.attempt.Stage {
	case ledger.StageSample:
		return allNext(ledger.Attempt{Stage: ledger.StageType, Anew: f.attempt.Anew}, t)
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
			n = next{attempt: ledger.Attempt{Stage: ledger.StagePreempt, NoRoomSince: f.noRoomSince}, retry: true}
		}
		return n
	default:
		if f.nominated && !f.terminating {
			return withoutVictims(f, p)
		}
		n := handed(f, p)
		if f.growingTo > 0 {
			n.wake = f.now.Add(aheadAgain(f.now.Sub(f.noRoomSince)))
		}
		return n
	}
}

// handed hands a pod to preemption. What its condition says then is read back by
// a scheduler that starts, if it matters: by a pod that has to wait.
func handed(f failure, p *policy.Policy) next {
	n := next{attempt: ledger.Attempt{Stage: ledger.StageType, NoRoomSince: f.noRoomSince, HandedAt: f.now}, preempt: true}
	if waits(f, p) {
		n.message = noCapacity(f.wants, f.noRoomSince)
	}
	return n
}

// waits reports whether a pod may borrow after a wait, so that the time since
// which it waits has to be found again.
func waits(f failure, p *policy.Policy) bool {
	wait, allowed := p.MayBorrow(f.wants)
	return allowed && wait > 0
}

// allNext tries all nodes of the slot's type at once.
func allNext(a ledger.Attempt, t capacity.Type) next {
	return next{attempt: a, retry: true, message: "trying all " + t.String() + " nodes next"}
}

// withoutVictims decides what follows when a nominated pod found no room and no
// pod terminates for it. Preemption has no second turn while its first can still
// be under way: it could choose other pods. After that the nomination came to
// nothing, or is not of preemption, and the pod is tried like every other one.
func withoutVictims(f failure, p *policy.Policy) next {
	attempt := ledger.Attempt{Stage: ledger.StageType, NoRoomSince: f.noRoomSince}
	over := f.attempt.HandedAt.Add(victimsTerminateWithin)
	if !f.now.Before(over) {
		return allNext(attempt, f.wants)
	}
	attempt.HandedAt = f.attempt.HandedAt
	n := next{attempt: attempt, wake: over, message: "preemption makes room on the nominated node"}
	if waits(f, p) {
		n.message += ", " + noCapacity(f.wants, f.noRoomSince)
	}
	return n
}

// aheadAgain is when a pod of a growing revision that found no room on either
// type is tried again. Its last attempt looked at one type only, so the queue
// does not know of room that came on the other meanwhile. Who waits for long is
// tried as often as by the back-off of the queue.
func aheadAgain(waited time.Duration) time.Duration {
	return min(max(waited/4, 2*time.Second), maxPause)
}

// afterType decides whether a pod that found no node of its type may borrow.
func afterType(f failure, p *policy.Policy) next {
	t := f.wants
	wait, allowed := p.MayBorrow(t)
	if !allowed {
		return handed(f, p)
	}
	if over := f.noRoomSince.Add(wait); f.now.Before(over) {
		return next{
			attempt: ledger.Attempt{Stage: ledger.StageType, NoRoomSince: f.noRoomSince}, wake: over,
			message: noCapacity(t, f.noRoomSince) + ", " + t.Other().String() + " is allowed from " + wholeSecond(over).Format(time.RFC3339),
		}
	}
	return next{
		attempt: ledger.Attempt{Stage: ledger.StageBorrow, NoRoomSince: f.noRoomSince}, retry: true,
		message: "trying " + t.Other().String() + " nodes next",
	}
}

// hadNoCapacity stands in the condition of a pod that waits for a capacity type,
// between the type and a time. A scheduler that starts, also of a later version,
// finds the time by it: the text must not change.
const hadNoCapacity = " has had no capacity for this pod since "

func noCapacity(t capacity.Type, since time.Time) string {
	return t.String() + hadNoCapacity + wholeSecond(since).Format(time.RFC3339)
}

// noCapacitySince finds the time in the message of a condition that noCapacity has written.
func noCapacitySince(message string, t capacity.Type) (since time.Time, found bool) {
	begin := t.String() + hadNoCapacity
	at := strings.LastIndex(message, begin)
	if at < 0 {
		return time.Time{}, false
	}
	text := message[at+len(begin):]
	since, err := time.Parse(time.RFC3339, text[:min(len(text), len("2006-01-02T15:04:05Z"))])
	return since, err == nil
}

// wholeSecond rounds up: no wait becomes shorter.
func wholeSecond(t time.Time) time.Time {
	return t.UTC().Add(time.Second - 1).Truncate(time.Second)
}
