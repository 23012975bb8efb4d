// SPDX-License-Identifier: Apache-2.0

package perscheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

// syncTimeout bounds the wait for event handlers. The scheduler starts only
// after the caches behind them are complete, so they are behind by what is in
// their queues.
const syncTimeout = 30 * time.Second

// Gate holds the first pods back until event handlers have seen everything that
// there was at the start. The zero value is open.
type Gate struct {
	handlers []cache.InformerSynced
	synced   atomic.Bool
}

// Add has the gate wait for something more. Before the first Wait only.
func (g *Gate) Add(synced cache.InformerSynced) { g.handlers = append(g.handlers, synced) }

// Handle registers an event handler, whose first list the gate waits for.
func (g *Gate) Handle(resource string, informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	g.Add(registration.HasSynced)
	return nil
}

// HasSynced reports whether all is seen. It does not block.
func (g *Gate) HasSynced() bool {
	if g.synced.Load() {
		return true
	}
	for _, synced := range g.handlers {
		if !synced() {
			return false
		}
	}
	g.synced.Store(true)
	return true
}

// Wait returns once all is seen; unseen says what was not, if that takes too
// long. After the first time it costs nothing.
func (g *Gate) Wait(ctx context.Context, unseen string) error {
	if g.synced.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), g.handlers...) {
		return fmt.Errorf("%s within %s", unseen, syncTimeout)
	}
	g.synced.Store(true)
	return nil
}

// Deleted unwraps what an informer passes when it missed the deletion itself.
func Deleted(obj any) any {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return unknown.Obj
	}
	return obj
}
