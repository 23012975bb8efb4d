// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// factory returns informers that are filled once, by fill, and never change after that: they have no goroutine, and
// every event handler has every object before the first question. Informers of client-go deliver to their handlers some
// time after they have synced, and plugins provide no way to wait for that.
type factory struct {
	// SharedInformerFactory has the API groups that no in-tree filter reads.
	informers.SharedInformerFactory
	client kubernetes.Interface
	kinds  map[reflect.Type]*informer
}

func newFactory(client kubernetes.Interface, nodes []*corev1.Node) *factory {
	f := &factory{
		SharedInformerFactory: informers.NewSharedInformerFactory(client, 0),
		client:                client,
		kinds:                 map[reflect.Type]*informer{},
	}
	// Filters read pods and nodes from the shared lister. The volume binding plugin requests the informers without
	// using them.
	f.of(f.Core().V1().Pods(), &corev1.Pod{}).given = true
	given := f.of(f.Core().V1().Nodes(), &corev1.Node{})
	given.given = true
	for _, n := range nodes {
		_ = given.GetIndexer().Add(n) // fails only for objects without metadata
	}
	return f
}

// requested is an informer of client-go, which wraps one of the factory in methods with types.
type requested interface {
	Informer() cache.SharedIndexInformer
}

// of returns the informer of a kind.
func (f *factory) of(requested requested, object runtime.Object) *informer {
	requested.Informer()
	return f.kinds[reflect.TypeOf(object)]
}

// InformerFor returns the informer of a kind.
func (f *factory) InformerFor(object runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(object)
	if i, ok := f.kinds[kind]; ok {
		return i
	}
	i := &informer{
		SharedIndexInformer: newFunc(f.client, 0), kind: kind.Elem().Name(), absent: make(chan struct{}), done: make(chan struct{}),
	}
	f.kinds[kind] = i
	return i
}

// Core returns the group with the informers of the factory.
func (f *factory) Core() core.Interface { return core.New(f, "", nil) }

// Apps returns the group with the informers of the factory.
func (f *factory) Apps() apps.Interface { return apps.New(f, "", nil) }

// Storage returns the group with the informers of the factory.
func (f *factory) Storage() storage.Interface { return storage.New(f, "", nil) }

// Policy returns the group with the informers of the factory.
func (f *factory) Policy() policy.Interface { return policy.New(f, "", nil) }

// Resource returns the group with the informers of the factory.
func (f *factory) Resource() resource.Interface { return resource.New(f, "", nil) }

// fill lists every requested kind once, and returns the first error.
func (f *factory) fill(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	for _, i := range f.kinds {
		if i.given {
			continue
		}
		if err := i.prepare(cancel); err != nil {
			return err
		}
		running.Go(func() { i.RunWithContext(ctx) })
	}
	f.Start(ctx.Done())
	waitsFor := f.wait(ctx)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		return cause
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(cause, context.Canceled):
		return fmt.Errorf("wait for the list of kind %s: %w", cmp.Or(waitsFor, "any"), cause)
	case waitsFor != "":
		return cause
	}
	f.WaitForCacheSync(ctx.Done())
	cancel(nil)
	running.Wait()
	f.Shutdown()
	for _, i := range f.kinds {
		i.deliver()
	}
	return nil
}

// wait waits until every requested kind is listed, and returns one that was not by the end of the context, "" for none.
func (f *factory) wait(ctx context.Context) (kind string) {
	for _, i := range f.kinds {
		if i.given {
			continue
		}
		select {
		case <-i.SharedIndexInformer.HasSyncedChecker().Done():
		case <-i.absent:
		case <-ctx.Done():
			return i.kind
		}
	}
	return ""
}

// informer calls its handlers only after its store is filled.
type informer struct {
	cache.SharedIndexInformer
	kind string
	// given means that the store was filled by the caller.
	given bool
	// absent is closed if the API server does not serve the kind, so there are no objects.
	absent   chan struct{}
	handlers []cache.ResourceEventHandler
	// done is closed once the handlers have every object.
	done chan struct{}
}

func (i *informer) prepare(fail context.CancelCauseFunc) error {
	absent := sync.OnceFunc(func() { close(i.absent) })
	err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			absent()
			return
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			err = errors.New(status.Status().Message) // the status has the resource, the wrapping error does not
		}
		fail(fmt.Errorf("list kind %s: %w", i.kind, err))
	})
	return errors.Join(err, i.SetTransform(stripObject))
}

func (i *informer) deliver() {
	for _, object := range i.GetStore().List() {
		for _, h := range i.handlers {
			h.OnAdd(object, true)
		}
	}
	close(i.done)
}

// put adds an object that the cluster does not have.
func (i *informer) put(object any) {
	_ = i.GetIndexer().Add(object) // fails only for objects without metadata
	for _, h := range i.handlers {
		h.OnAdd(object, false)
	}
}

// drop removes an object.
func (i *informer) drop(object any) {
	_ = i.GetIndexer().Delete(object) // fails only for objects without metadata
	for _, h := range i.handlers {
		h.OnDelete(object)
	}
}

// HasSynced reports whether the store and all handlers have every object.
func (i *informer) HasSynced() bool { return cache.IsDone(i) }

// HasSyncedChecker returns the informer.
func (i *informer) HasSyncedChecker() cache.DoneChecker { return i }

// Name implements cache.DoneChecker.
func (i *informer) Name() string { return i.kind }

// Done implements cache.DoneChecker.
func (i *informer) Done() <-chan struct{} { return i.done }

// AddEventHandler registers a handler.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return i, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: objects never change.
func (i *informer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler.
func (i *informer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}
