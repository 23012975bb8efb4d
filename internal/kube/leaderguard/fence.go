// SPDX-License-Identifier: Apache-2.0

// Package leaderguard keeps a leader from writing once another replica may lead: when its lease was not renewed in time, or when the
// process was stopped, by a signal, a debugger or a machine without CPU time. Leader election detects both, but a moment after
// everything else has continued.
package leaderguard

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// ErrShut is the error of a write behind a fence that is shut.
var ErrShut = errors.New("another replica may lead: the lease was not renewed in time, or this process was stopped for too long; it writes nothing more, and ends")

// Fence is shut for good once another replica may lead. The process has to end then, even if no other replica took the lease. The
// fence of a process that never led is open.
type Fence struct {
	clock clock.WithTicker
	began time.Time
	shut  chan struct{} // closed with the fence

	mu      sync.Mutex
	elapsed elapsed
	term    term
}

// New returns a fence that is open.
func New(c clock.WithTicker) *Fence {
	began := c.Now()
	return &Fence{clock: c, began: began, shut: make(chan struct{}), elapsed: elapsed{wall: time.Duration(began.UnixNano())}}
}

// Run observes the process until the context ends. It returns ErrShut if the process has to end.
func (f *Fence) Run(ctx context.Context, limits Limits) error {
	tick := f.clock.NewTicker(limits.RenewDeadline / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.shut:
			return ErrShut
		case <-tick.C():
			f.Shut()
		}
	}
}

// Shut reports whether another replica may lead. It must be called before every write.
func (f *Fence) Shut() bool {
	f.update(func(t *term, now time.Duration) { t.observe(now) })
	select {
	case <-f.shut:
		return true
	default:
		return false
	}
}

func (f *Fence) update(change func(t *term, now time.Duration)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, now := f.term.over, f.clock.Now()
	change(&f.term, f.elapsed.read(now.Sub(f.began), time.Duration(now.UnixNano())))
	if f.term.over && !was {
		close(f.shut)
	}
}

// Lock has the fence observe what leader election does with its lease. The fence is armed by the renewal that acquires it.
func (f *Fence) Lock(next resourcelock.Interface, limits Limits) resourcelock.Interface {
	return &lock{next, f, limits}
}

type lock struct {
	resourcelock.Interface
	fence  *Fence
	limits Limits
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, r, l.Interface.Update)
}

func (l *lock) write(ctx context.Context, r resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if r.HolderIdentity != l.Identity() {
		// client-go reads the lease and gives it up, whoever holds it, unless it has observed another holder. A leader that was stopped
		// has not: the lease that it would give up is that of the replica that leads by now, and a third replica would take it.
		if l.fence.Shut() {
			return ErrShut
		}
		// Before it is sent: another replica may lead as soon as it arrives.
		l.fence.update(func(t *term, _ time.Duration) { t.release() })
		return send(ctx, r)
	}
	var sent time.Duration
	l.fence.update(func(_ *term, now time.Duration) { sent = now })
	err := send(ctx, r)
	if err == nil {
		l.fence.update(func(t *term, now time.Duration) { t.renew(sent, now, l.limits) })
	}
	return err
}
