// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Activating a pod bypasses the back-off of the scheduling queue: a tenant who changes an object ten times a second would
// have 5,000 pods that fit nowhere tried ten times a second, ahead of all others. So a namespace pauses after its changes
// activated pods, for pausePerPod each, for MaxPause at most. A change during the pause activates the pods after it.
const (
	pausePerPod = 20 * time.Millisecond
	// MaxPause is the longest back-off of the scheduling queue.
	MaxPause = 10 * time.Second
)

// Throttle activates pods after changes by tenants. A namespace cannot delay another one, and no change is lost.
// It is safe for concurrent use.
type Throttle[K comparable] struct {
	// Clock ends the pauses. Set before use; the real one by default.
	Clock clock.WithDelayedExecution

	// activate activates the pods that changes of a namespace concern, and returns how many there are.
	activate func(namespace string, c Changes[K]) int

	mu sync.Mutex
	// pending has the namespaces that pause, with the changes since.
	pending map[string]Changes[K]
	// held is set until Release: all namespaces pause.
	held bool
}

// Changes are the keys that changed, such as groups of pods. All means everything in the namespace, of which the keys are a part.
type Changes[K comparable] struct {
	All  bool
	Keys map[K]struct{}
}

// Has reports whether a key is among the changes.
func (c Changes[K]) Has(key K) bool {
	_, has := c.Keys[key]
	return c.All || has
}

func (c Changes[K]) empty() bool { return !c.All && len(c.Keys) == 0 }

// NewThrottle returns a Throttle. The function activates the pods that the changes concern, and returns their number. It
// is called again for changes during a call, so it must find the pods itself.
func NewThrottle[K comparable](activate func(namespace string, c Changes[K]) int) *Throttle[K] {
	return &Throttle[K]{Clock: clock.RealClock{}, activate: activate, pending: map[string]Changes[K]{}}
}

// NewHeldThrottle is NewThrottle. Changes wait for Release: what changes many times until then is activated once.
func NewHeldThrottle[K comparable](activate func(namespace string, c Changes[K]) int) *Throttle[K] {
	t := NewThrottle(activate)
	t.held = true
	return t
}

// Release activates what changes concerned so far, in a goroutine of its own, and calls a function then. If there were none, it
// calls the function at once. Later changes do not wait. It must be called once.
func (t *Throttle[K]) Release(done func()) {
	t.mu.Lock()
	t.held = false
	namespaces := slices.Collect(maps.Keys(t.pending))
	t.mu.Unlock()
	if len(namespaces) == 0 {
		done()
		return
	}
	go func() {
		for _, namespace := range namespaces {
			t.flush(namespace)
		}
		done()
	}()
}

// NamespaceChanged activates the pods that any object of a namespace concerns.
func (t *Throttle[K]) NamespaceChanged(namespace string) {
	t.changed(namespace, func(c *Changes[K]) { c.All = true })
}

// Changed activates the pods that a key of a namespace concerns.
func (t *Throttle[K]) Changed(namespace string, key K) {
	t.changed(namespace, func(c *Changes[K]) {
		if c.Keys == nil {
			c.Keys = map[K]struct{}{}
		}
		c.Keys[key] = struct{}{}
	})
}

// Pausing returns the number of namespaces that pause.
func (t *Throttle[K]) Pausing() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pending)
}

func (t *Throttle[K]) changed(namespace string, add func(*Changes[K])) {
	t.mu.Lock()
	c, pausing := t.pending[namespace]
	add(&c)
	t.pending[namespace] = c
	pausing = pausing || t.held
	t.mu.Unlock()
	if !pausing {
		t.flush(namespace)
	}
}

// flush activates the pods that the pending changes concern, and again after the pause if there are more changes by then.
// The function finds the pods after the changes, so that none is missed.
func (t *Throttle[K]) flush(namespace string) {
	for {
		c, more := t.next(namespace)
		if !more {
			return
		}
		if pause := min(time.Duration(t.activate(namespace, c))*pausePerPod, MaxPause); pause > 0 {
			t.Clock.AfterFunc(pause, func() { t.flush(namespace) })
			return
		}
	}
}

// next takes the pending changes of a namespace. If there are none, its pause is over.
func (t *Throttle[K]) next(namespace string) (c Changes[K], more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c = t.pending[namespace]; c.empty() {
		delete(t.pending, namespace)
		return c, false
	}
	t.pending[namespace] = Changes[K]{}
	return c, true
}
