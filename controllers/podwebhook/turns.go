// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

const (
	// readsAtOnce bounds the reads that are under way, readsAtOncePerNamespace those of one namespace.
	readsAtOnce, readsAtOncePerNamespace = 8, 2
	// readsPerSecond and readBurst bound the reads of all namespaces, far below the limit of the controller's client.
	readsPerSecond, readBurst = 100, 400
	// A namespace has half of that.
	namespaceReadsPerSecond, namespaceReadBurst = readsPerSecond / 2, readBurst / 2
	// rememberedNamespaces is how many namespaces have a rate that is remembered.
	rememberedNamespaces = 1024
)

// turns bound the reads that admission reviews cause. Any client that reaches the port can send reviews of pods that do not
// exist: such reads must neither take the client of the controller from its other parts, nor one namespace that of others.
type turns struct {
	all   chan struct{}
	rate  *rate.Limiter
	rates *lru.Cache // of namespaces

	mu sync.Mutex
	of map[string]*namespaceTurns
}

// namespaceTurns exist while a read of the namespace waits or is under way.
type namespaceTurns struct {
	slots chan struct{}
	users int
}

func newTurns() *turns {
	return &turns{
		all: make(chan struct{}, readsAtOnce), rate: rate.NewLimiter(readsPerSecond, readBurst),
		rates: lru.New(rememberedNamespaces), of: map[string]*namespaceTurns{},
	}
}

// enter waits until a read for a namespace may be made. If it returns true, leave must be called after the read.
func (t *turns) enter(ctx context.Context, namespace string) bool {
	slots := t.join(namespace)
	if !wait(ctx, slots) {
		t.part(namespace)
		return false
	}
	if t.rateOf(namespace).Wait(ctx) == nil && t.rate.Wait(ctx) == nil && wait(ctx, t.all) {
		return true
	}
	<-slots
	t.part(namespace)
	return false
}

func (t *turns) leave(namespace string) {
	<-t.all
	t.mu.Lock()
	slots := t.of[namespace].slots
	t.mu.Unlock()
	<-slots
	t.part(namespace)
}

func (t *turns) join(namespace string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of[namespace]
	if n == nil {
		n = &namespaceTurns{slots: make(chan struct{}, readsAtOncePerNamespace)}
		t.of[namespace] = n
	}
	n.users++
	return n.slots
}

func (t *turns) part(namespace string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of[namespace]
	if n.users--; n.users == 0 {
		delete(t.of, namespace)
	}
}

func (t *turns) rateOf(namespace string) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.rates.Get(namespace); ok {
		return known.(*rate.Limiter) //nolint:forcetypeassert // nothing else is in it
	}
	l := rate.NewLimiter(namespaceReadsPerSecond, namespaceReadBurst)
	t.rates.Add(namespace, l)
	return l
}

func wait(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
