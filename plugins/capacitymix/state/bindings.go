// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"time"
)

// A scheduling cycle is some ten times faster than a binding, and the scheduler
// makes every binding in a goroutine of its own. Without a bound, a burst of
// 10,000 pods becomes thousands of requests at a time: past the streams of one
// connection each dials again, the API server's flow control rejects them, and
// more time goes into requests that fail than into bindings. 64 at a time are as
// fast as an API server on two cores makes them (docs/performance.md).
const (
	// MaxBindings is how many bindings are made at the same time.
	MaxBindings = 64
	// bindingTimeout bounds how long a scheduling cycle waits for one of them. If
	// the API server hangs, the queue goes on, at this pace; its bindings wait.
	bindingTimeout = time.Second
)

// Bindings bounds the bindings that are made at the same time, over all profiles
// of a scheduler.
type Bindings struct {
	slots   chan struct{}
	timeout time.Duration
}

// NewBindings returns Bindings of which so many are made at the same time, and
// for which a scheduling cycle waits up to a timeout.
func NewBindings(most int, timeout time.Duration) *Bindings {
	return &Bindings{slots: make(chan struct{}, most), timeout: timeout}
}

// Do makes a binding as soon as there is a free slot.
func (b *Bindings) Do(ctx context.Context, bind func() error) error {
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.slots }()
	return bind()
}

// Wait returns when there is a free slot, or after the timeout. While all are in
// use nothing is gained by deciding ahead, and a later decision is made on newer
// facts.
func (b *Bindings) Wait(ctx context.Context) {
	if len(b.slots) < cap(b.slots) {
		return
	}
	timeout := time.NewTimer(b.timeout)
	defer timeout.Stop()
	select {
	case b.slots <- struct{}{}:
		<-b.slots
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// InProgress returns how many bindings are being made.
func (b *Bindings) InProgress() int { return len(b.slots) }
