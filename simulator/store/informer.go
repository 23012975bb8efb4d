// SPDX-License-Identifier: Apache-2.0

package store

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// Informer has the objects of one kind. Handlers are called as an object changes, by the goroutine that changes it, in the order in which
// they were added: nothing of a simulation is seen late. Informers of client-go see each object some time after it has changed.
type Informer struct {
	// The methods of it that are not here are of no use in a simulation, and panic.
	cache.SharedIndexInformer
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
	changes  uint64
	// sorted has the lists by namespace that were read since the last change.
	sorted map[string][]Object
}

var _ cache.SharedIndexInformer = &Informer{}

// synced is closed: handlers always have every object.
var synced = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newInformer() *Informer {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &Informer{sorted: map[string][]Object{}, indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace)}
}

// Changes returns the number of changes of all objects.
func (i *Informer) Changes() uint64 { return i.changes }

func (i *Informer) changed() {
	i.changes++
	clear(i.sorted)
}

func (i *Informer) put(o Object) {
	i.changed()
	old, existed, _ := i.indexer.Get(o) // fails only for objects without metadata
	_ = i.indexer.Update(o)
	for _, h := range i.handlers {
		if existed {
			h.OnUpdate(old, o)
		} else {
			h.OnAdd(o, false)
		}
	}
}

func (i *Informer) drop(o Object) {
	i.changed()
	_ = i.indexer.Delete(o)
	for _, h := range i.handlers {
		h.OnDelete(o)
	}
}

// AddEventHandler adds a handler. It gets the objects that there are.
func (i *Informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	for _, o := range i.indexer.List() {
		h.OnAdd(o, true)
	}
	return i, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: nothing is missed, so nothing is repeated.
func (i *Informer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler.
func (i *Informer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddIndexers adds indexes.
func (i *Informer) AddIndexers(indexers cache.Indexers) error { return i.indexer.AddIndexers(indexers) }

// GetIndexer returns the objects.
func (i *Informer) GetIndexer() cache.Indexer { return i.indexer }

// GetStore returns the objects.
func (i *Informer) GetStore() cache.Store { return i.indexer }

// SetTransform does nothing: objects are kept as they are.
func (*Informer) SetTransform(cache.TransformFunc) error { return nil }

// SetWatchErrorHandlerWithContext does nothing: there is no watch.
func (*Informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// HasSynced returns true: handlers have every object.
func (*Informer) HasSynced() bool { return true }

// HasSyncedChecker returns the informer.
func (i *Informer) HasSyncedChecker() cache.DoneChecker { return i }

// Name implements cache.DoneChecker.
func (*Informer) Name() string { return "simulation" }

// Done implements cache.DoneChecker.
func (*Informer) Done() <-chan struct{} { return synced }
