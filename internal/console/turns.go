// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"sync"
)

// turns bound how many requests do something at once, in total and for each user: one user holds at most a share, and has at most as many
// in the queue of all.
type turns struct {
	all  chan struct{}
	each int

	mu sync.Mutex // guards the rest
	of map[string]*userTurns
}

// userTurns are those of a user who has some or waits for some.
type userTurns struct {
	taken chan struct{}
	users int
}

func newTurns(all, each int) *turns {
	return &turns{all: make(chan struct{}, all), each: each, of: map[string]*userTurns{}}
}

// take waits until a user may do one more, which ends with done. what is a plural noun.
func (t *turns) take(ctx context.Context, user, what string) (done func(), err error) {
	own := t.enter(user)
	late := func() error {
		t.leave(user)
		return fmt.Errorf("%s take too long: %w", what, ctx.Err())
	}
	select {
	case own.taken <- struct{}{}:
	case <-ctx.Done():
		return nil, late()
	}
	select {
	case t.all <- struct{}{}:
		return t.done(user, own), nil
	case <-ctx.Done():
		<-own.taken
		return nil, late()
	}
}

// try takes a turn of a user if there is one now.
func (t *turns) try(user string) (done func(), ok bool) {
	own := t.enter(user)
	select {
	case own.taken <- struct{}{}:
	default:
		t.leave(user)
		return nil, false
	}
	select {
	case t.all <- struct{}{}:
		return t.done(user, own), true
	default:
		<-own.taken
		t.leave(user)
		return nil, false
	}
}

func (t *turns) done(user string, own *userTurns) func() {
	return func() {
		<-t.all
		<-own.taken
		t.leave(user)
	}
}

func (t *turns) enter(user string) *userTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[user]
	if own == nil {
		share := t.each
		if user == "" { // the only one
			share = cap(t.all)
		}
		own = &userTurns{taken: make(chan struct{}, share)}
		t.of[user] = own
	}
	own.users++
	return own
}

func (t *turns) leave(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[user].users--; t.of[user].users == 0 {
		delete(t.of, user)
	}
}
