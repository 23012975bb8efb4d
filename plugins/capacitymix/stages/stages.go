// SPDX-License-Identifier: Apache-2.0

// Package stages decides what follows when a pod with a slot found no node: which
// nodes it is tried on next, when, and whether preemption has its turn.
package stages

import (
	"strings"
	"time"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// Next is what follows a failed attempt to place a pod.
type Next struct {
	Attempt ledger.Attempt
	// Retry: try the next stage at once.
	Retry bool
	// RetryAt is when to try again without an event; zero for never.
	RetryAt time.Time
	// Preempt: DefaultPreemption has its turn, on nodes of the slot's type.
	Preempt bool
	Message string
}

// Failure is an attempt that found no node.
type Failure struct {
	Attempt  ledger.Attempt
	SlotType capacity.Type // of the slot that was tried
	// NoCapacitySince is when the pod was first found to have no free capacity on its type, Now if that is this moment.
	NoCapacitySince, Now time.Time
	// GrowingTo is the size to which a rollout grows the group, 0 if none does.
	GrowingTo int
	// Nominated: the pod was tried on the nodes of its type only, since preemption
	// had chosen one for it. Terminating: pods that it preempted are not gone yet.
	Nominated, Terminating bool
}

// victimsTerminateWithin bounds the time from the turn of preemption until the
// pods that it chose are seen to terminate: it deletes them in the background.
const victimsTerminateWithin = 5 * time.Second

// maxRetry is the longest back-off of the scheduling queue.
const maxRetry = 10 * time.Second

// After decides what follows a failure.
func After(f Failure, p *governing.Mix) Next {
	t := f.SlotType
	switch f.Attempt.Stage {
	case ledger.StageSample:
		return tryAll(ledger.Attempt{Stage: ledger.StageType, TypeChanged: f.Attempt.TypeChanged}, t)
	case ledger.StageType:
		if f.GrowingTo > 0 && f.Attempt.Below == 0 { // otherwise there was no later slot
			return Next{
				Attempt: ledger.Attempt{Stage: ledger.StageAhead, NoCapacitySince: f.NoCapacitySince, Below: f.GrowingTo}, Retry: true,
				Message: "the rollout is not complete: trying a later slot that is " + t.Other().String() + " next",
			}
		}
		return againLater(f, afterType(f, p))
	case ledger.StageAhead:
		f.SlotType = t.Other() // the slot that was tried is of the other type
		n := afterType(f, p)
		if n.Preempt { // not here: the nodes that were tried are those of the other type
			n = Next{Attempt: ledger.Attempt{Stage: ledger.StagePreempt, NoCapacitySince: f.NoCapacitySince}, Retry: true}
		}
		return n
	default:
		if f.Nominated && !f.Terminating {
			return withoutVictims(f, p)
		}
		return againLater(f, preempt(f, p))
	}
}

// againLater has a pod of a growing revision tried again that leaves it to preemption.
func againLater(f Failure, n Next) Next {
	if f.GrowingTo > 0 && n.Preempt {
		n.RetryAt = f.Now.Add(retryDelay(f.Now.Sub(f.NoCapacitySince)))
	}
	return n
}

// preempt gives preemption its turn. A scheduler that starts reads the time back
// from the pod's condition, if it matters: if the pod has to wait.
func preempt(f Failure, p *governing.Mix) Next {
	n := Next{Attempt: ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: f.NoCapacitySince, PreemptedAt: f.Now}, Preempt: true}
	if borrowsAfterWait(f, p) {
		n.Message = NoCapacity(f.SlotType, f.NoCapacitySince)
	}
	return n
}

// borrowsAfterWait reports whether a pod may borrow after a wait, so that the time
// since which it waits has to be found again.
func borrowsAfterWait(f Failure, p *governing.Mix) bool {
	wait, allowed := p.MayBorrow(f.SlotType)
	return allowed && wait > 0
}

// tryAll tries all nodes of the slot's type at once.
func tryAll(a ledger.Attempt, t capacity.Type) Next {
	return Next{Attempt: a, Retry: true, Message: "trying all " + t.String() + " nodes next"}
}

// withoutVictims decides what follows when a nominated pod found no free capacity and no
// pod terminates for it. Preemption has no second turn while its first can still
// be in progress: it could choose other pods. After that the nomination came to
// nothing, or is not of preemption, and the pod is tried like every other one.
func withoutVictims(f Failure, p *governing.Mix) Next {
	attempt := ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: f.NoCapacitySince}
	until := f.Attempt.PreemptedAt.Add(victimsTerminateWithin)
	if !f.Now.Before(until) {
		return tryAll(attempt, f.SlotType)
	}
	attempt.PreemptedAt = f.Attempt.PreemptedAt
	n := Next{Attempt: attempt, RetryAt: until, Message: "preemption frees capacity on the nominated node"}
	if borrowsAfterWait(f, p) {
		n.Message += ", " + NoCapacity(f.SlotType, f.NoCapacitySince)
	}
	return n
}

// retryDelay is when a pod of a growing revision that found no free capacity on either
// type is tried again. Its last attempt was on one type only, so the queue has no
// event for capacity on the other meanwhile. A pod that waits for long is tried as
// often as by the back-off of the queue.
func retryDelay(waited time.Duration) time.Duration {
	return min(max(waited/4, 2*time.Second), maxRetry)
}

// afterType decides whether a pod that found no node of its type may borrow.
func afterType(f Failure, p *governing.Mix) Next {
	t := f.SlotType
	wait, allowed := p.MayBorrow(t)
	if !allowed {
		return preempt(f, p)
	}
	if until := f.NoCapacitySince.Add(wait); f.Now.Before(until) {
		return Next{
			Attempt: ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: f.NoCapacitySince}, RetryAt: until,
			Message: NoCapacity(t, f.NoCapacitySince) + ", " + t.Other().String() + " is allowed from " +
				wholeSecond(until).Format(time.RFC3339),
		}
	}
	return Next{
		Attempt: ledger.Attempt{Stage: ledger.StageBorrow, NoCapacitySince: f.NoCapacitySince}, Retry: true,
		Message: "trying " + t.Other().String() + " nodes next",
	}
}

// HadNoCapacity is in the condition of a pod that waits for a capacity type,
// between the type and a time. A scheduler that starts, also of a later version,
// finds the time by it: the text must not change.
const HadNoCapacity = " has had no capacity for this pod since "

// NoCapacity is the message of a pod that waits for a capacity type.
func NoCapacity(t capacity.Type, since time.Time) string {
	return t.String() + HadNoCapacity + wholeSecond(since).Format(time.RFC3339)
}

// NoCapacitySince finds the time in the message of a condition that NoCapacity has written.
func NoCapacitySince(message string, t capacity.Type) (since time.Time, found bool) {
	begin := t.String() + HadNoCapacity
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
