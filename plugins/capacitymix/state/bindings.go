// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// bindingTimeout bounds how long a scheduling cycle waits for one binding. If the API server hangs, the queue goes on, at
// this pace; its bindings wait.
const bindingTimeout = time.Second

// Bindings bounds the bindings that are in progress at the same time, over all profiles of a scheduler. A scheduling cycle
// is some ten times faster than a binding, and the scheduler makes every binding in a goroutine of its own. Without a
// bound, a burst of 10,000 pods becomes thousands of requests at a time: past the streams of one connection each dials
// again, the API server's flow control rejects them, and more time goes into requests that fail than into bindings.
type Bindings struct {
	timeout time.Duration
	// turns has mostBound of them. Those that are more than may be in progress are held here.
	turns *semaphore.Weighted

	mu         sync.Mutex
	bound      bound
	inProgress int
	// excess is how many more are in progress than may be, since the bound fell.
	excess int
	seen   window
	since  time.Time
}

// NewBindings returns Bindings of which so many are in progress at the same time at first, and for which a scheduling
// cycle waits up to a timeout.
func NewBindings(first int, timeout time.Duration) *Bindings {
	b := &Bindings{timeout: timeout, turns: semaphore.NewWeighted(mostBound), bound: bound{now: first}}
	b.turns.TryAcquire(int64(mostBound - first))
	return b
}

// Do makes a binding as soon as fewer than may be are in progress.
func (b *Bindings) Do(ctx context.Context, bind func() error) error {
	if !b.turns.TryAcquire(1) {
		if err := b.queue(ctx); err != nil {
			return err
		}
	}
	b.begin()
	err := bind()
	b.end(err)
	return err
}

func (b *Bindings) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inProgress == 0 { // a window does not count the time in which there was nothing to do
		b.seen, b.since = window{}, time.Now()
	}
	b.inProgress++
}

func (b *Bindings) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inProgress--
	b.seen.done++
	if overloaded(err) {
		b.seen.overloaded++
	}
	if b.seen.took = time.Since(b.since); b.seen.over(b.bound.now) {
		before := b.bound.now
		b.bound = b.bound.next(b.seen)
		b.seen, b.since = window{}, time.Now()
		b.excess += before - b.bound.now
	}
	// Its own turn, and those by which the bound grew.
	if free := 1 - b.excess; free > 0 {
		b.turns.Release(int64(free))
		b.excess = 0
	} else {
		b.excess--
	}
}

// overloaded reports whether the API server had no capacity for a request.
func overloaded(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// Wait returns when another binding may be made, or after the timeout. While it may not, nothing is gained by deciding
// ahead, and a later decision is made on newer facts.
func (b *Bindings) Wait(ctx context.Context) {
	if !b.turns.TryAcquire(1) {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		defer cancel()
		if b.queue(ctx) != nil {
			return
		}
	}
	b.turns.Release(1)
}

// queue takes a turn that the bound holds up. It notes that at the end of the wait: windows that began meanwhile are full.
func (b *Bindings) queue(ctx context.Context) error {
	err := b.turns.Acquire(ctx, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.full = true
	return err
}

// InProgress returns how many bindings are being made.
func (b *Bindings) InProgress() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inProgress
}
