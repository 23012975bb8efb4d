// SPDX-License-Identifier: Apache-2.0

// Package fence keeps a leader that was stopped, by a signal, a debugger or a machine without CPU time, from going on where it
// was when another one may lead. Leader election notices it too, but a moment after everything else has gone on.
package fence

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
)

// ErrShut is what a write gets behind a fence that is shut.
var ErrShut = errors.New("this process was stopped for so long that another one may lead: it writes nothing more, and ends")

// Fence is shut for good once a process that leads has been stopped for longer than it may; the process has to end then, even
// if nobody took its lease. The time for which a whole machine
// is suspended does not count: the clock of leader election does not see it either.
type Fence struct {
	clock clock.WithTicker

	mu    sync.Mutex
	limit time.Duration // 0 while it does not lead
	seen  time.Time
	shut  bool
}

// New returns a fence that is open.
func New(c clock.WithTicker) *Fence { return &Fence{clock: c} }

// Run notes that the process runs, from the moment on that it leads, until the context ends. The limit is the renew deadline of
// leader election, after which a lease that was not renewed is given up. It returns ErrShut if the process has to end.
func (f *Fence) Run(ctx context.Context, limit time.Duration) error {
	f.lead(limit)
	tick := f.clock.NewTicker(limit / 10)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			if f.Shut() {
				return ErrShut
			}
		}
	}
}

func (f *Fence) lead(limit time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit, f.seen = limit, f.clock.Now()
}

// Shut reports whether the process was stopped for too long since it leads. Whoever asks first finds out.
func (f *Fence) Shut() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit == 0 {
		return false
	}
	now := f.clock.Now()
	f.shut = f.shut || now.Sub(f.seen) > f.limit
	f.seen = now
	return f.shut
}

// Wrap has a client refuse to write when the fence is shut. Leases are left to leader election, which knows better.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{f, next} }

type transport struct {
	fence *Fence
	next  http.RoundTripper
}

var _ net.RoundTripperWrapper = &transport{}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/") && t.fence.Shut() {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper has to
		}
		return nil, ErrShut
	}
	return t.next.RoundTrip(r)
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }
