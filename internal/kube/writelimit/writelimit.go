// SPDX-License-Identifier: Apache-2.0

// Package writelimit spaces the writes of objects, each by itself and all together.
package writelimit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Limiter keeps when objects were written last. Safe for concurrent use.
type Limiter struct {
	// every is the least time between two writes of one object.
	every time.Duration

	mu      sync.Mutex
	written map[types.NamespacedName]time.Time
}

// New returns a Limiter with the least time between two writes of one object.
func New(every time.Duration) *Limiter {
	return &Limiter{every: every, written: map[types.NamespacedName]time.Time{}}
}

// Wait returns how long the write of an object has to wait, 0 if it is its turn: then the write counts. A write for which the
// limiter of all objects together has no token waits for retry.
func (l *Limiter) Wait(key types.NamespacedName, now time.Time, together *rate.Limiter, retry time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait := l.written[key].Add(l.every).Sub(now); wait > 0 {
		return wait
	}
	if !together.AllowN(now, 1) {
		return retry
	}
	l.written[key] = now
	return 0
}

// Len returns the number of objects that are known.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.written)
}

// Forget drops an object that does not exist any more.
func (l *Limiter) Forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.written, key)
}
