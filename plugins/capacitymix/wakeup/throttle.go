// SPDX-License-Identifier: Apache-2.0

package wakeup

import (
	"sync"
	"time"

	"berth.dev/berth/internal/mix/policy"
)

// A change by a tenant, of a mix or of an owner's annotation, activates the pods
// that wait for it, and Activate bypasses the back-off of the scheduling queue: a
// tenant who changes a mix ten times a second would have 5,000 pods that fit
// nowhere tried ten times a second, ahead of all others. So a namespace pauses
// after its pods were activated, for pausePerPod each, for maxPause at most. A
// change during the pause activates them after it.
const (
	pausePerPod = 20 * time.Millisecond
	// maxPause is the longest back-off of the scheduling queue.
	maxPause = 10 * time.Second
)

// Throttle activates the pods of namespaces after changes by tenants.
type Throttle struct {
	// activate activates the pods of a namespace that changes concern, and returns how many there are.
	activate func(namespace string, c Changes) int

	mu sync.Mutex
	// pending has the namespaces that pause, with the changes since.
	pending map[string]Changes
}

// Changes are the groups that changed. All stands for every group of the namespace.
type Changes struct {
	All    bool
	Groups map[policy.GroupKey]struct{}
}

func (c Changes) empty() bool { return !c.All && len(c.Groups) == 0 }

// NewThrottle returns a Throttle.
func NewThrottle(activate func(namespace string, c Changes) int) *Throttle {
	return &Throttle{activate: activate, pending: map[string]Changes{}}
}

// NamespaceChanged activates the pods of a namespace.
func (t *Throttle) NamespaceChanged(namespace string) {
	t.changed(namespace, func(c *Changes) { c.All, c.Groups = true, nil })
}

// GroupChanged activates the pods of a group.
func (t *Throttle) GroupChanged(key policy.GroupKey) {
	t.changed(key.Namespace, func(c *Changes) {
		if c.All {
			return
		}
		if c.Groups == nil {
			c.Groups = map[policy.GroupKey]struct{}{}
		}
		c.Groups[key] = struct{}{}
	})
}

func (t *Throttle) changed(namespace string, add func(*Changes)) {
	t.mu.Lock()
	c, pausing := t.pending[namespace]
	add(&c)
	t.pending[namespace] = c
	t.mu.Unlock()
	if !pausing {
		t.flush(namespace)
	}
}

// flush activates the pods that the pending changes concern, and again after the
// pause if there are more changes by then. Activate finds the pods after the
// changes, so that none is missed.
func (t *Throttle) flush(namespace string) {
	t.mu.Lock()
	c := t.pending[namespace]
	if c.empty() {
		delete(t.pending, namespace)
		t.mu.Unlock()
		return
	}
	t.pending[namespace] = Changes{}
	t.mu.Unlock()
	pause := min(time.Duration(t.activate(namespace, c))*pausePerPod, maxPause)
	time.AfterFunc(pause, func() { t.flush(namespace) })
}
