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
	stop  context.CancelFunc
	users int
	used  time.Time
}

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
		if hub.users == 0 && h.clock.Since(hub.used) > keepReading {
			h.drop(k)
		}
	}
}

func (h *hubs) drop(k key) {
	h.all[k].stop()
	delete(h.all, k)
}

// take returns the pages of a key, until release is called. Above the limit, those that no one has used for longest give way.
func (h *hubs) take(k key) (pages *pages.Console, release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		return nil, nil, errNotRunning
	}
	found := h.all[k]
	if found == nil {
		if len(h.all) >= h.most.Most() && !h.evict() {
			return nil, nil, h.most.Refuse("different readings")
		}
		ctx, stop := context.WithCancel(h.ctx)
		found = &hub{Console: h.make(k), stop: stop}
		h.all[k] = found
		go found.Run(ctx)
	}
	found.users++
	return found.Console, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		found.users--
		found.used = h.clock.Now()
	}, nil
}

// evict drops the pages that no one has used for longest, and reports whether there are any.
func (h *hubs) evict() bool {
	var oldest *key
	for k, hub := range h.all {
		if hub.users == 0 && (oldest == nil || hub.used.Before(h.all[*oldest].used)) {
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
