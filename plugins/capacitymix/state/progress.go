// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// catchUpTimeout bounds the wait of a scheduling cycle for the ledger. The queues of both are in one process, so that
// the ledger is behind by microseconds, and by milliseconds on a busy machine.
const catchUpTimeout = time.Second

// Progress is how far the event handler of a resource has come. The scheduling queue has a handler of its own, and can
// try the successor of a pod before the ledger has the deletion of the pod. Each handler gets the events in the same
// order: once the ledger's handler has had a version of a pod, it has had all earlier ones. The zero value has had nothing.
type Progress struct {
	mu      sync.Mutex
	version string
	moved   chan struct{} // closed by the next event; nil if nothing waits
}

// Advance records that an object with this resource version was handled.
func (p *Progress) Advance(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached(version) {
		return
	}
	p.version = version
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// Reach waits until an object with this resource version was handled. It returns false if that takes too long, or if
// the context ends before.
func (p *Progress) Reach(ctx context.Context, version string) bool {
	moved := p.behind(version)
	if moved == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	for ; moved != nil; moved = p.behind(version) {
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// behind returns a channel that the next event closes, or nil if the version is reached.
func (p *Progress) behind(version string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached(version) {
		return nil
	}
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved
}

// reached compares versions. One that cannot be compared is reached: an object that no API server stored has none.
func (p *Progress) reached(version string) bool {
	if p.version == "" {
		_, err := resourceversion.CompareResourceVersion(version, version)
		return err != nil
	}
	order, err := resourceversion.CompareResourceVersion(version, p.version)
	return err != nil || order <= 0
}
