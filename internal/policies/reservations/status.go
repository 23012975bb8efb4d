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
func (l *Ledger) Updates(now time.Time) []Update {
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

// finished reports whether a condition is of a Reservation that holds nothing any more.
func finished(c *metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && (c.Reason == v1alpha1.ReasonExpired || c.Reason == v1alpha1.ReasonUsed)
}

// Written notes that a status was written, or what the API server has instead.
func (l *Ledger) Written(object *v1alpha1.Reservation) {
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
			written = v1alpha1.Hold{NodeName: h.NodeName} // a process that is killed now has not bound it
		}
		s.Holds = append(s.Holds, written)
		switch {
		case written.PodUID != "":
			s.UsedCount++
		case h.cause == "":
			s.HeldCount++
		}
	}
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

// condition is the condition Reserved.
func (e *entry) condition(rank int, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReserved, Status: metav1.ConditionFalse}
	switch {
	case e.r.Err != nil:
		c.Reason, c.Message = v1alpha1.ReasonInvalid, e.r.Err.Error()
	case e.usedUp():
		c.Reason, c.Message = v1alpha1.ReasonUsed, "pods have used the capacity"
	case !now.Before(e.r.Expires):
		c.Reason, c.Message = v1alpha1.ReasonExpired, "the capacity is released"
	case rank >= MaxPerNamespace:
		c.Reason = v1alpha1.ReasonTooMany
		c.Message = fmt.Sprintf("only the %d oldest Reservations of a namespace that are not finished hold capacity", MaxPerNamespace)
	case e.ready() < e.r.Replicas:
		c.Reason = v1alpha1.ReasonUnschedulable
		c.Message = fmt.Sprintf("capacity for %d of %d replicas is held or used", e.ready(), e.r.Replicas)
		for _, why := range slices.Compact([]string{e.causes(), e.message}) {
			if why != "" {
				c.Message += ": " + why
			}
		}
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonReserved, "capacity for all replicas is held or used"
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
