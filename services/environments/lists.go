// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sharedLists shares what is read for all who follow the logs of an environment: its containers are listed once in an interval,
// however many follow.
type sharedLists struct {
	// fresh is for how long a list counts.
	fresh time.Duration

	mu sync.Mutex // guards the rest
	by map[types.UID]*sharedList
}

// sharedList is the last list of an environment's containers.
type sharedList struct {
	followers int
	// done is closed when the list is there; nil if there is none yet.
	done chan struct{}
	// at, all and err are what was read, and when. They are set before done is closed.
	at  time.Time
	all []instance
	err error
}

func newSharedLists(interval time.Duration) *sharedLists {
	return &sharedLists{fresh: interval * 9 / 10, by: map[types.UID]*sharedList{}}
}

// join adds a follower. The result removes it.
func (l *sharedLists) join(id types.UID) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[id] == nil {
		l.by[id] = &sharedList{}
	}
	l.by[id].followers++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.by[id].followers--; l.by[id].followers == 0 {
			delete(l.by, id)
		}
	}
}

// there returns the containers of an environment that has followers. Read has a time of its own: others wait for it too.
func (l *sharedLists) there(ctx context.Context, id types.UID, read func(context.Context) ([]instance, error)) ([]instance, error) {
	l.mu.Lock()
	shared := l.by[id]
	if shared.done == nil || shared.old(l.fresh) {
		next := &sharedList{followers: shared.followers, done: make(chan struct{})}
		l.by[id], shared = next, next
		go func() {
			defer close(next.done)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
			defer cancel()
			next.all, next.err = read(ctx)
			next.at = time.Now()
		}()
	}
	l.mu.Unlock()
	select {
	case <-shared.done:
		return shared.all, shared.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// old reports whether a list is complete and older than that.
func (l *sharedList) old(than time.Duration) bool {
	select {
	case <-l.done:
		return l.err != nil || time.Since(l.at) >= than
	default:
		return false
	}
}
