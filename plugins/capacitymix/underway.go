// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"time"
)

// A scheduling cycle is some ten times faster than a binding, and the scheduler
// makes every binding in a goroutine of its own. Without a bound, a burst of
// 10,000 pods becomes thousands of requests at a time: past the streams of one
// connection each dials again, the API server's flow control refuses them, and
// more time goes into requests that fail than into bindings. 64 at a time are as
// fast as an API server on two cores makes them (docs/performance.md).
const (
	maxBindings = 64
	// bindingPatience bounds how long a scheduling cycle waits for one of them. If
	// the API server hangs, the queue goes on, at this pace; its bindings wait.
	bindingPatience = time.Second
)

// underway bounds the bindings that are being made at the same time, over all
// profiles of a scheduler.
type underway struct {
	seats    chan struct{}
	patience time.Duration
}

func newUnderway(most int, patience time.Duration) *underway {
	return &underway{seats: make(chan struct{}, most), patience: patience}
}

// bind makes a binding when it is its turn.
func (u *underway) bind(ctx context.Context, call func() error) error {
	select {
	case u.seats <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-u.seats }()
	return call()
}

// wait lets bindings catch up before the next pod is taken on: while as many as
// there may be are under way, nothing is gained by deciding ahead, and what is
// decided later is decided on what is known then.
func (u *underway) wait(ctx context.Context) {
	if len(u.seats) < cap(u.seats) {
		return
	}
	over := time.NewTimer(u.patience)
	defer over.Stop()
	select {
	case u.seats <- struct{}{}:
		<-u.seats
	case <-over.C:
	case <-ctx.Done():
	}
}
