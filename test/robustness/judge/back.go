// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/test/robustness/history"
)

// longestAbsence is how long a workload may have fewer pods with a node than before a move, beside free capacity and while
// there is no fault: its owner creates the replacement, and the scheduler has a back-off of ten seconds.
const longestAbsence = 30 * time.Second

// absence is a replica that was evicted and is not back yet.
type absence struct {
	move move
	// had is how many pods with a node its workload had before.
	had int
	// since is when the workload lacked a pod, and a node had capacity for it; zero while none has.
	since time.Time
	// longest is the longest such time that is over.
	longest time.Duration
}

// EvictedIsBack judges that a replica that the controller evicted is back: its owner has as many pods with a node again as
// before, or as many as it requests by then. Only time counts in which a node of the other type had capacity for a pod like
// it, and no fault, nor one shortly before.
func EvictedIsBack(h *history.History) *Verdict {
	v := &Verdict{Promise: "I5, an evicted replica is back"}
	all, w := moves(h), newWorld()
	var open []*absence
	judge := func(a *absence, until time.Time) {
		a.interrupt(h, until)
		if a.longest > longestAbsence {
			v.requested(a.move.request, "the workload lacked the replica for %s beside free capacity", a.longest.Round(time.Millisecond))
		}
	}
	for i := range h.Changes {
		c := &h.Changes[i]
		for _, m := range all {
			if m.commit == i {
				v.Facts++
				open = append(open, &absence{move: m, had: w.placed(m.pod)})
			}
		}
		w.apply(c)
		open = slices.DeleteFunc(open, func(a *absence) bool {
			back := w.back(a)
			switch other := w.typeOf(a.move.pod.Spec.NodeName).Other(); {
			case back:
				judge(a, c.At)
			case !w.fits(a.move.pod, other):
				a.interrupt(h, c.At)
			case a.since.IsZero():
				a.since = c.At
			}
			return back
		})
	}
	for _, a := range open {
		judge(a, end(h))
	}
	return v
}

// interrupt ends a time that counts.
func (a *absence) interrupt(h *history.History, at time.Time) {
	if !a.since.IsZero() {
		a.longest = max(a.longest, longestCalm(h, a.since, at))
		a.since = time.Time{}
	}
}

// back reports whether nothing is lacking. A workload without a known owner can lack nothing.
func (w *world) back(a *absence) bool {
	o := w.demander(a.move.pod)
	return o == nil || w.placed(a.move.pod) >= min(a.had, int(o.Replicas))
}

// placed is how many live pods of a pod's workload have a node.
func (w *world) placed(p *corev1.Pod) (n int) {
	w.siblings(p, func(other *corev1.Pod) {
		if other.Spec.NodeName != "" {
			n++
		}
	})
	return n
}
