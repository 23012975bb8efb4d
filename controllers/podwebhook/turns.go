// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
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
	all   *semaphore.Weighted
	rate  *rate.Limiter
	rates *lru.Cache // of namespaces

	mu sync.Mutex
	of map[string]*namespaceTurns
}

// namespaceTurns exist while a read of the namespace waits or is under way.
type namespaceTurns struct {
	slots *semaphore.Weighted
	users int
}

func newTurns() *turns {
	return &turns{
		all: semaphore.NewWeighted(readsAtOnce), rate: rate.NewLimiter(readsPerSecond, readBurst),
		rates: lru.New(rememberedNamespaces), of: map[string]*namespaceTurns{},
	}
}

// enter waits until a read for a namespace may be made. If it returns true, leave must be called after the read.
func (t *turns) enter(ctx context.Context, namespace string) bool {
	if t.join(namespace).Acquire(ctx, 1) != nil {
		t.part(namespace, 0)
		return false
	}
	if t.rateOf(namespace).Wait(ctx) == nil && t.rate.Wait(ctx) == nil && t.all.Acquire(ctx, 1) == nil {
		return true
	}
	t.part(namespace, 1)
	return false
}

func (t *turns) leave(namespace string) {
	t.all.Release(1)
	t.part(namespace, 1)
}

func (t *turns) join(namespace string) *semaphore.Weighted {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of[namespace]
	if n == nil {
		n = &namespaceTurns{slots: semaphore.NewWeighted(readsAtOncePerNamespace)}
		t.of[namespace] = n
	}
	n.users++
	return n.slots
}

// part ends a turn that has so many slots of the namespace.
func (t *turns) part(namespace string, slots int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of[namespace]
	n.slots.Release(slots)
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
