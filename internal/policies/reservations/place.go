// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	// firstRetry is when a node is looked for again that was not found, mostRetry the longest such time.
	firstRetry, mostRetry = time.Second, 15 * time.Second
)

// Next returns a Reservation that a node is to be found for, the one that has waited longest, nil if there is none now.
func (l *Ledger) Next(now time.Time) *Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(now)
	var next *entry
	for _, list := range l.active {
		for _, e := range list {
			if e.waits(now) && (next == nil || cmp.Or(e.retry.Compare(next.retry), oldest(e, next)) < 0) {
				next = e
			}
		}
	}
	if next == nil {
		return nil
	}
	return next.r
}

// waits reports whether a node is to be found for a Reservation now.
func (e *entry) waits(now time.Time) bool {
	return e.r.Err == nil && e.r.Object.Spec.NodeName == "" && len(e.holds) < e.r.Replicas && !now.Before(e.retry)
}

// Hold holds capacity for one more pod on a node.
func (l *Ledger) Hold(r *Reservation, node string, now time.Time) {
	l.placed(r, func(e *entry) {
		if len(e.holds) < e.r.Replicas {
			e.holds = append(e.holds, hold{Hold: v1alpha1.Hold{NodeName: node}})
			e.message, e.tries, e.retry = "", 0, now
			l.freed++
		}
	})
}

// NotHeld notes why no node was found, if that is known. It is tried again later.
func (l *Ledger) NotHeld(r *Reservation, why string, now time.Time) {
	l.placed(r, func(e *entry) {
		if why != "" {
			e.message = why
		}
		e.retry = now.Add(min(firstRetry<<min(e.tries, 10), mostRetry))
		e.tries++
	})
}

func (l *Ledger) placed(r *Reservation, change func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[keyOf(r.Object)]; e != nil && e.r.Object.UID == r.Object.UID {
		change(e)
		l.touch()
	}
}

// sweep frees what pods used that have ended unobserved, and drops what is free on nodes that are gone: both may have happened
// while no process had them in its cache. Guarded by mu.
func (l *Ledger) sweep(e *entry) {
	for _, h := range slices.Clone(e.holds) {
		uid := types.UID(h.PodUID)
		if c, runs := l.claims[uid]; !e.r.Once && uid != "" && !h.binding && (!runs || c.of != keyOf(e.r.Object)) {
			l.free(e, uid)
		}
	}
	before := len(e.holds)
	e.holds = slices.DeleteFunc(e.holds, func(h hold) bool { return h.free() && !l.nodes.Has(h.NodeName) })
	if len(e.holds) < before {
		l.touch()
	}
}
