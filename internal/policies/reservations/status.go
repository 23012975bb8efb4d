// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// Update is a Reservation whose status differs from what is known, or that is to be deleted.
type Update struct {
	// Object has the new status.
	Object *v1alpha1.Reservation
	// Reason is the reason of the condition Reserved, if it is another one than before.
	Reason string
	// Released are the causes why capacity was released on nodes, at most three.
	Released []string
	// Delete is set if its time after the end is over.
	Delete bool
}

// Updates returns what the leading process has to write.
func (l *Holdings) Updates(now time.Time) []Update {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep()
	l.refresh(now)
	var all []Update
	for _, namespace := range slices.Sorted(maps.Keys(l.of)) {
		for rank, e := range ranked(l.of[namespace], now) {
			status := e.status(rank, now)
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReserved)
			if finished(c) && !now.Before(c.LastTransitionTime.Add(e.r.TTL())) {
				all = append(all, Update{Object: e.r.Object, Delete: true})
				continue
			}
			// Before it is known where the pod of a group has its node, a status would conflict with the one that has it.
			if !same(status, &e.r.Object.Status) && (e.r.Group() == "" || len(e.holds) > 0 || finished(c)) {
				object := *e.r.Object
				object.Status = *status
				u := Update{Object: &object, Released: e.released}
				e.released = nil
				if old := meta.FindStatusCondition(e.r.Object.Status.Conditions, c.Type); old == nil || old.Reason != c.Reason {
					u.Reason = c.Reason
				}
				all = append(all, u)
			}
		}
	}
	return all
}

// Totals are the numbers of Reservations by the reason of their condition Reserved, and of the replicas of those that are not
// finished: for which capacity is held, which pods use, and for which none is held or no pod can run where it is.
type Totals struct {
	Reservations        map[string]int
	Held, Used, Missing int
}

// Totals returns those of all Reservations.
func (l *Holdings) Totals(now time.Time) Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Totals{Reservations: map[string]int{}}
	for _, list := range l.of {
		for rank, e := range ranked(list, now) {
			t.Reservations[e.reason(rank, now)]++
			if e.finished(now) {
				continue
			}
			held, used := e.counts()
			t.Held, t.Used, t.Missing = t.Held+held, t.Used+used, t.Missing+max(0, e.r.Replicas-e.ready())
		}
	}
	return t
}

// counts returns for how many pods capacity is held where they can run, and how many are bound that use it.
func (e *entry) counts() (held, used int) {
	for i := range e.holds {
		switch h := &e.holds[i]; {
		case !h.free() && !h.binding: // a process that is killed now has not bound the others
			used++
		case h.cause == "":
			held++
		}
	}
	return held, used
}

// finished reports whether a condition is of a Reservation that holds nothing any more.
func finished(c *metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && (c.Reason == v1alpha1.ReasonExpired || c.Reason == v1alpha1.ReasonUsed)
}

// Written notes that a status was written, or what the API server has instead.
func (l *Holdings) Written(object *v1alpha1.Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[keyOf(object)]; e != nil && e.r.Object.UID == object.UID && !older(object, e.r.Object) {
		e.r, e.known = Compile(object), object.Status.Holds
	}
}

// status is that of a Reservation, the rank-th of its namespace by age among those that are not finished.
func (e *entry) status(rank int, now time.Time) *v1alpha1.ReservationStatus {
	s := &v1alpha1.ReservationStatus{
		ObservedGeneration: e.r.Object.Generation, ExpirationTime: new(metav1.NewTime(e.r.Expires)),
		Conditions: slices.Clone(e.r.Object.Status.Conditions), Holds: make([]v1alpha1.Hold, 0, len(e.holds)),
	}
	for _, h := range e.holds {
		written := h.Hold
		if h.binding {
			written = v1alpha1.Hold{NodeName: h.NodeName}
		}
		s.Holds = append(s.Holds, written)
	}
	held, used := e.counts()
	s.HeldCount, s.UsedCount = int32(held), int32(used) //nolint:gosec // at most 100 replicas, and the pods that used it
	c := e.condition(rank, now)
	c.ObservedGeneration = s.ObservedGeneration
	c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	if old := meta.FindStatusCondition(s.Conditions, c.Type); old != nil && finished(old) != finished(&c) {
		old.Status = metav1.ConditionUnknown // the time until the deletion begins now, whatever the status was before
	}
	meta.SetStatusCondition(&s.Conditions, c)
	return s
}

// same compares all that status sets. Reflection would hold the lock for long where there are many Reservations.
func same(a, b *v1alpha1.ReservationStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.HeldCount == b.HeldCount && a.UsedCount == b.UsedCount &&
		a.ExpirationTime.Equal(b.ExpirationTime) && slices.Equal(a.Holds, b.Holds) && slices.Equal(a.Conditions, b.Conditions)
}

// reason is that of the condition Reserved.
func (e *entry) reason(rank int, now time.Time) string {
	switch {
	case e.r.Err != nil:
		return v1alpha1.ReasonInvalid
	case e.usedUp():
		return v1alpha1.ReasonUsed
	case !now.Before(e.r.Expires):
		return v1alpha1.ReasonExpired
	case rank >= MaxPerNamespace:
		return v1alpha1.ReasonTooMany
	case e.ready() < e.r.Replicas:
		return v1alpha1.ReasonUnschedulable
	}
	return v1alpha1.ReasonReserved
}

// condition is the condition Reserved.
func (e *entry) condition(rank int, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReserved, Status: metav1.ConditionFalse, Reason: e.reason(rank, now)}
	switch c.Reason {
	case v1alpha1.ReasonInvalid:
		c.Message = e.r.Err.Error()
	case v1alpha1.ReasonUsed:
		c.Message = "pods have used the capacity"
	case v1alpha1.ReasonExpired:
		c.Message = "the capacity is released"
	case v1alpha1.ReasonTooMany:
		c.Message = fmt.Sprintf("only the %d oldest Reservations of a namespace that are not finished hold capacity", MaxPerNamespace)
	case v1alpha1.ReasonUnschedulable:
		c.Message = fmt.Sprintf("capacity for %d of %d replicas is held or used", e.ready(), e.r.Replicas)
		for _, why := range slices.Compact([]string{e.causes(), e.message}) {
			if why != "" {
				c.Message += ": " + why
			}
		}
	default:
		c.Status, c.Message = metav1.ConditionTrue, "capacity for all replicas is held or used"
	}
	return c
}

// ranked yields the Reservations of a namespace with their place among those that are not finished.
func ranked(list []*entry, now time.Time) func(yield func(int, *entry) bool) {
	return func(yield func(int, *entry) bool) {
		rank := 0
		for _, e := range list {
			if !yield(rank, e) {
				return
			}
			if !e.finished(now) {
				rank++
			}
		}
	}
}
