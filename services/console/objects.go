// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/clusterstate"
)

// keepObjects is how long the objects are watched after the last reading.
const keepObjects = 5 * time.Minute

// objects are informers of what the pages list. They run from the first reading until a while after the last one, so that a console that no
// one looks at costs the API server and the memory nothing.
type objects struct {
	config *rest.Config
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	clock  clock.PassiveClock

	mu sync.Mutex // guards the rest
	// ctx is that of run, nil before it.
	ctx  context.Context //nolint:containedctx // informers outlive the request that starts them
	now  *informers
	used time.Time
}

// informers are one start of the informers.
type informers struct {
	cache.Cache
	stop context.CancelFunc
	// version changes when an object does.
	version atomic.Uint64
}

var errNotRunning = errors.New("the console does not run yet")

// run stops informers that are no longer used, until the context ends.
func (o *objects) run(ctx context.Context) {
	o.mu.Lock()
	o.ctx = ctx
	o.mu.Unlock()
	wait.UntilWithContext(ctx, func(context.Context) { o.sweep() }, keepObjects/10)
}

func (o *objects) sweep() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now != nil && o.clock.Since(o.used) > keepObjects {
		o.now.stop()
		o.now = nil
	}
}

// open returns running informers.
func (o *objects) open() (*informers, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ctx == nil {
		return nil, errNotRunning
	}
	o.used = o.clock.Now()
	if o.now != nil {
		return o.now, nil
	}
	c, err := cache.New(o.config, cache.Options{Scheme: o.scheme, Mapper: o.mapper, DefaultTransform: clusterstate.Lean})
	if err != nil {
		return nil, fmt.Errorf("make informers: %w", err)
	}
	ctx, stop := context.WithCancel(o.ctx)
	o.now = &informers{Cache: c, stop: stop}
	go func() { _ = c.Start(ctx) }() // it returns no error but that it runs already
	for i := range kinds {
		o.now.count(ctx, kinds[i].object)
	}
	return o.now, nil
}

// count has the version count the changes of a kind.
func (f *informers) count(ctx context.Context, object client.Object) {
	informer, err := f.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return // the API server does not serve the kind, which each list reports
	}
	changed := func() { f.version.Add(1) }
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			if !same(before, after) {
				changed()
			}
		},
	})
}

// same reports whether objects differ in nothing but their version: what Lean leaves out changes often.
func same(before, after any) bool {
	a, ok := before.(client.Object)
	b, is := after.(client.Object)
	return ok && is && reflect.DeepEqual(unversioned(a), unversioned(b))
}

// unversioned is a shallow copy of an object without its version.
func unversioned(o client.Object) any {
	copied := reflect.New(reflect.TypeOf(o).Elem())
	copied.Elem().Set(reflect.ValueOf(o).Elem())
	copied.Interface().(client.Object).SetResourceVersion("") //nolint:forcetypeassert // it is of the type of o
	return copied.Interface()
}
