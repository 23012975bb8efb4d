// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
)

// state of a pod in the ledger.
type state uint8

const (
	claimed  state = iota // pending, holds a slot
	ungated               // pending, but its slot and its type are settled: its gate was removed
	reserved              // assumed on a node, its Binding is under way
	bound                 // seen with a node name
)

// record is one pod. Its fields are guarded by Ledger.mu. What its seat depends on is changed by record.change.
type record struct {
	uid     types.UID
	created int64 // Unix time in nanoseconds
	group   *group
	// seat holds the slot of the pod: own, or that of its unit.
	seat  *seat
	own   seat
	state state
	// brought is the slot that is on the pod, or in its Binding, NoSlot for none.
	brought int32
	// on is the type of its node, or the one that it is limited to; leans is the one that it may have already: a write that gives it
	// one has no answer yet.
	on, leans capacity.Type
	node      string
	// limited is the type that an ungated pod was limited to; it keeps it to its end.
	limited capacity.Type
	// was is the last type that is known of its node, which may be gone before the pod is.
	was capacity.Type
	// open: counted by its seat as one that may get a node. refused: it is in the list of its group.
	open, refused bool
	// domain is the interruption domain in which the pod is counted, noDomain if
	// in none, or if its group has domains of its own.
	domain  int32
	zone    int32       // the same for its zone
	counted *details    // the node on which group.siblings and group.limits count it, nil if on none
	pending *corev1.Pod // while claimed or ungated: whom to wake
	// woken: the pod was returned by Forget, and has not claimed since.
	woken bool
	// doubt: a Binding of the pod had no answer, so the API server may have bound it with its slot. Until it is seen, the pod
	// must not take another slot: its own would be given to another pod.
	doubt bool
	// seeks is the type that the pod's own slot is of; while it is tried ahead
	// of its turn (StageAhead), the slot it holds is of the other type.
	seeks capacity.Type
	// fixed: when it claimed, others of its unit determined its type, so it does not borrow.
	fixed bool
	// attempt is nil for one that has not begun, as that of most pods.
	attempt *Attempt
}

// tried returns how far the search of a pod has come.
func (r *record) tried() Attempt {
	if r.attempt == nil {
		return Attempt{}
	}
	return *r.attempt
}

// at returns the attempt of a pod, to change it.
func (r *record) at() *Attempt {
	if r.attempt == nil {
		r.attempt = &Attempt{}
	}
	return r.attempt
}

// try sets how far the search of a pod has come.
func (r *record) try(a Attempt) {
	if r.attempt = nil; a != (Attempt{}) {
		*r.at() = a
	}
}
