// SPDX-License-Identifier: Apache-2.0

// Package stepqueue has a work queue whose keys are reconciled one at each step, by a clock of its caller: in tests and simulations.
package stepqueue

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/internal/mix/governing"
)

// Queue is a work queue without goroutines: a delay ends when Busy is called. It is for one goroutine.
type Queue struct {
	workqueue.TypedInterface[governing.GroupKey]
	clock clock.PassiveClock
	at    map[governing.GroupKey]time.Time
	next  time.Time // the first of at; zero: there is none
}

var _ workqueue.TypedRateLimitingInterface[governing.GroupKey] = &Queue{}

// New returns an empty queue that hands out its keys in an order.
func New(order workqueue.Queue[governing.GroupKey], c clock.PassiveClock) *Queue {
	keys := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[governing.GroupKey]{Queue: order})
	return &Queue{TypedInterface: keys, clock: c, at: map[governing.GroupKey]time.Time{}}
}

// AddAfter implements workqueue.TypedDelayingInterface. As in client-go, the earliest of several delays counts.
func (q *Queue) AddAfter(key governing.GroupKey, wait time.Duration) {
	if wait <= 0 {
		q.Add(key)
		return
	}
	at := q.clock.Now().Add(wait)
	if old, waits := q.at[key]; !waits || at.Before(old) {
		q.at[key] = at
		q.next = first(q.next, at)
	}
}

func first(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *Queue) AddRateLimited(key governing.GroupKey) { q.AddAfter(key, time.Second) }

// Forget implements workqueue.TypedRateLimitingInterface.
func (*Queue) Forget(governing.GroupKey) {}

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (*Queue) NumRequeues(governing.GroupKey) int { return 0 }

// At returns when the delay of a key ends, the zero time if it has none.
func (q *Queue) At(key governing.GroupKey) time.Time { return q.at[key] }

// Next returns when the first delay ends, the zero time if there is none.
func (q *Queue) Next() time.Time { return q.next }

// Only reports whether a key has a delay, no other one has, and none is due.
func (q *Queue) Only(key governing.GroupKey) bool {
	_, waits := q.at[key]
	return waits && len(q.at) == 1 && q.Len() == 0
}

// Skip has a key that has a delay wait for as many intervals more as have passed since. One that is due now stays due.
func (q *Queue) Skip(key governing.GroupKey, every time.Duration) {
	at, waits := q.at[key]
	if late := q.clock.Now().Sub(at); waits && late > 0 {
		q.at[key] = at.Add((late + every - 1) / every * every)
		q.next = time.Time{}
		for _, at := range q.at {
			q.next = first(q.next, at)
		}
	}
}

// Busy ends the delays that are over, and reports whether a key is due.
func (q *Queue) Busy() bool {
	now := q.clock.Now()
	if q.next.IsZero() || now.Before(q.next) {
		return q.Len() > 0 // a look at every delay would be most of what the benchmarks measure
	}
	q.next = time.Time{}
	for key, at := range q.at {
		if now.Before(at) {
			q.next = first(q.next, at)
			continue
		}
		delete(q.at, key)
		q.Add(key)
	}
	return q.Len() > 0
}

// Step reconciles the next key in the queue, and reports whether there was one.
func (q *Queue) Step(ctx context.Context, r reconcile.TypedReconciler[governing.GroupKey]) bool {
	if q.Len() == 0 {
		return false
	}
	key, _ := q.Get()
	defer q.Done(key)
	if _, err := r.Reconcile(ctx, key); err != nil {
		q.AddRateLimited(key)
	}
	return true
}

// Drain reconciles until no key is due.
func (q *Queue) Drain(ctx context.Context, r reconcile.TypedReconciler[governing.GroupKey]) {
	const enough = 1_000_000
	for n := 0; q.Busy(); {
		for q.Step(ctx, r) {
			if n++; n > enough {
				panic("there is always another key due")
			}
		}
	}
}
