// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Turns makes calls that write the same object do so one after the other. Without it, of many calls at the same time each makes
// others fail with a conflict. It covers one process: other replicas, and the controllers, still conflict. The zero value is ready.
type Turns struct {
	mu sync.Mutex // guards the rest
	by map[string]*turn
}

// turn is that of one key.
type turn struct {
	free chan struct{} // has one element while no call has the turn
	// users are the call that has the turn and those that wait for it.
	users int
}

// Take waits for the turn of a key, until the context ends. done ends the turn.
func (t *Turns) Take(ctx context.Context, key string) (done func(), err error) {
	t.mu.Lock()
	if t.by == nil {
		t.by = map[string]*turn{}
	}
	own := t.by[key]
	if own == nil {
		own = &turn{free: make(chan struct{}, 1)}
		own.free <- struct{}{}
		t.by[key] = own
	}
	own.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.by, key)
		}
	}
	select {
	case <-own.free:
		return func() { own.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// The pause after a conflict doubles from the first to the longest.
const firstPause, longestPause = 5 * time.Millisecond, 250 * time.Millisecond

// Converge repeats a write that reads what it changes until it meets no write of another client. It ends with the context: then the
// error is that of the context.
func Converge(ctx context.Context, once func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := once()
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait.Jitter(pause, 1)):
		}
	}
}
