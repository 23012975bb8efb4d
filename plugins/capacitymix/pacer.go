// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"
	"time"

	"berth.dev/berth/internal/mix/policy"
)

// What a tenant changes, a mix or an annotation of an owner, wakes the pods that
// wait for it, and Activate bypasses the back-off of the scheduling queue: who
// changes a mix ten times a second would have 5,000 pods that fit nowhere tried
// ten times a second, ahead of all others. So the pods of a namespace pause
// after they were woken, for pausePerPod each, for maxPause at most: that is the
// longest back-off of the queue. A change meanwhile wakes them after the pause.
const (
	pausePerPod = 20 * time.Millisecond
	maxPause    = 10 * time.Second
)

// pacer wakes the pods of namespaces for changes that tenants make.
type pacer struct {
	// activate wakes the pods that wait in a namespace, or those of some of its groups, and returns how many there are.
	activate func(namespace string, of changes) int

	mu sync.Mutex
	// pausing are the namespaces that were woken, with what changed since.
	pausing map[string]changes
}

// changes are the groups that changed; with everything, all of the namespace.
type changes struct {
	everything bool
	groups     map[policy.GroupKey]struct{}
}

func (c changes) none() bool { return !c.everything && len(c.groups) == 0 }

func newPacer(activate func(namespace string, of changes) int) *pacer {
	return &pacer{activate: activate, pausing: map[string]changes{}}
}

// namespaceChanged wakes the pods of a namespace.
func (p *pacer) namespaceChanged(namespace string) {
	p.changed(namespace, func(c *changes) { c.everything, c.groups = true, nil })
}

// groupChanged wakes the pods of a group.
func (p *pacer) groupChanged(key policy.GroupKey) {
	p.changed(key.Namespace, func(c *changes) {
		if c.everything {
			return
		}
		if c.groups == nil {
			c.groups = map[policy.GroupKey]struct{}{}
		}
		c.groups[key] = struct{}{}
	})
}

func (p *pacer) changed(namespace string, add func(*changes)) {
	p.mu.Lock()
	c, pausing := p.pausing[namespace]
	add(&c)
	p.pausing[namespace] = c
	p.mu.Unlock()
	if !pausing {
		p.wake(namespace)
	}
}

// wake wakes the pods for what changed, and again after the pause if anything
// changes until then. What is waiting is found out here, after the change.
func (p *pacer) wake(namespace string) {
	p.mu.Lock()
	c := p.pausing[namespace]
	if c.none() {
		delete(p.pausing, namespace)
		p.mu.Unlock()
		return
	}
	p.pausing[namespace] = changes{}
	p.mu.Unlock()
	pause := min(time.Duration(p.activate(namespace, c))*pausePerPod, maxPause)
	time.AfterFunc(pause, func() { p.wake(namespace) })
}
