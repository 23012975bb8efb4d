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
func (l *Holdings) Next(now time.Time) *Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
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

// waits reports whether a node is to be found for a Reservation now. The scheduler selects the node of a pod that is bound with
// others before it makes its Reservation.
func (e *entry) waits(now time.Time) bool {
	return e.r.Err == nil && e.r.Group() == "" && e.ready() < e.r.Replicas && !now.Before(e.retry)
}

// Hold holds capacity for one more pod on a node.
func (l *Holdings) Hold(r *Reservation, node string, now time.Time) {
	l.placed(r, func(e *entry) {
		if cause, _ := e.r.fault(node, l.nodes[node]); cause != "" { // it has changed since, or the scheduler cannot count so much
			e.notHeld(cause, now)
			return
		}
		if e.ready() >= e.r.Replicas {
			return
		}
		if len(e.holds) >= e.r.Replicas { // one of them is where no pod can run
			at := slices.IndexFunc(e.holds, func(h hold) bool { return h.cause != "" })
			e.released = append(e.released, e.holds[at].cause)
			e.holds = slices.Delete(e.holds, at, at+1)
		}
		e.holds = append(e.holds, hold{Hold: v1alpha1.Hold{NodeName: node}})
		if e.message, e.tries, e.retry = "", 0, now; e.ready() >= e.r.Replicas {
			e.lost = nil
		}
		l.count(e)
	})
}

// NotHeld notes why no node was found, if that is known. It is tried again later.
func (l *Holdings) NotHeld(r *Reservation, why string, now time.Time) {
	l.placed(r, func(e *entry) { e.notHeld(why, now) })
}

func (e *entry) notHeld(why string, now time.Time) {
	if why != "" {
		e.message = why
	}
	e.retry = now.Add(min(firstRetry<<min(e.tries, 10), mostRetry))
	e.tries++
}

func (l *Holdings) placed(r *Reservation, change func(*entry)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[keyOf(r.Object)]; e != nil && e.r.Object.UID == r.Object.UID {
		swept := !l.unswept
		change(e)
		l.touch()
		l.unswept = !swept // nothing else has changed, and there may be many Reservations
	}
}

// freeEnded frees what pods used that have ended unobserved. Guarded by mu.
func (l *Holdings) freeEnded(e *entry) {
	for _, h := range slices.Clone(e.holds) {
		uid := types.UID(h.PodUID)
		if c, runs := l.claims[uid]; !e.r.Once && uid != "" && !h.binding && (!runs || c.of != keyOf(e.r.Object)) {
			l.free(e, uid)
		}
	}
}
