// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	pages "berth.dev/berth/internal/console"
	"berth.dev/berth/services/server"
)

// keepReading is how long the pages of rights that no one has open are kept.
const keepReading = time.Minute

// key identifies what pages can show: users with the same rights in the same namespaces share them.
type key struct {
	// namespace is "" for all.
	namespace string
	rights    rights
}

// hub are the pages of a key, with a reading of their own.
type hub struct {
	*pages.Console
	stop context.CancelFunc
	// by counts the requests in progress of each user. last is the user of the last one that ended.
	by   map[string]int
	last string
	used time.Time
}

// of reports whether a hub counts for a user: one is kept for the user who has used it last.
func (h *hub) of(user string) bool { return h.by[user] > 0 || len(h.by) == 0 && h.last == user }

// hubs are the pages of all keys that are in use, or were a while ago.
type hubs struct {
	most  *server.Limit
	clock clock.PassiveClock
	// make returns the pages of a key, whose Run is called.
	make func(key) *pages.Console

	mu sync.Mutex // guards the rest
	// ctx is that of run, nil before it.
	ctx context.Context //nolint:containedctx // pages outlive the request that starts them
	all map[key]*hub
}

func (h *hubs) run(ctx context.Context) {
	h.mu.Lock()
	h.ctx = ctx
	h.mu.Unlock()
	wait.UntilWithContext(ctx, func(context.Context) { h.sweep() }, keepReading/4)
}

func (h *hubs) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, hub := range h.all {
		if len(hub.by) == 0 && h.clock.Since(hub.used) > keepReading {
			h.drop(k)
		}
	}
}

func (h *hubs) drop(k key) {
	h.all[k].stop()
	delete(h.all, k)
}

// perUser is the number of readings of one user: a share, which the others cannot lose to that user.
func (h *hubs) perUser() int { return max(1, h.most.Most()/4) }

// take returns the pages of a key for a user, until release is called. Above the limit of all, or of the user, those that no one has used
// for longest give way. Pages that can show nothing are not kept: a user can name any number of namespaces.
func (h *hubs) take(k key, user string) (pages *pages.Console, release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		return nil, nil, errNotRunning
	}
	if k.rights == 0 {
		alone := h.begin(k)
		return alone.Console, alone.stop, nil
	}
	found := h.all[k]
	another := func(o *hub) bool { return o != found && o.of(user) }
	if (found == nil || !found.of(user)) && h.count(user) >= h.perUser() && !h.evict(another) {
		return nil, nil, h.perUserLimit().Refuse("different readings of one user")
	}
	if found == nil {
		if len(h.all) >= h.most.Most() && !h.evict(func(*hub) bool { return true }) {
			return nil, nil, h.most.Refuse("different readings")
		}
		found = h.begin(k)
		h.all[k] = found
	}
	found.by[user]++
	return found.Console, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if found.by[user]--; found.by[user] == 0 {
			delete(found.by, user)
		}
		found.last, found.used = user, h.clock.Now()
	}, nil
}

// begin returns the pages of a key, which read until they are stopped.
func (h *hubs) begin(k key) *hub {
	ctx, stop := context.WithCancel(h.ctx)
	began := &hub{Console: h.make(k), stop: stop, by: map[string]int{}}
	go began.Run(ctx)
	return began
}

// count is the number of readings of a user.
func (h *hubs) count(user string) (n int) {
	for _, hub := range h.all {
		if hub.of(user) {
			n++
		}
	}
	return n
}

// perUserLimit is the limit of one user, for its refusal.
func (h *hubs) perUserLimit() *server.Limit {
	return server.NewLimit(h.most.Name+" of one user", h.perUser())
}

// evict drops, of some, the pages that no one has used for longest, and reports whether there are any.
func (h *hubs) evict(of func(*hub) bool) bool {
	var oldest *key
	for k, hub := range h.all {
		if len(hub.by) == 0 && of(hub) && (oldest == nil || hub.used.Before(h.all[*oldest].used)) {
			oldest = &k
		}
	}
	if oldest != nil {
		h.drop(*oldest)
	}
	return oldest != nil
}

// String names a key in logs.
func (k key) String() string { return fmt.Sprintf("%q/%x", k.namespace, uint64(k.rights)) }
