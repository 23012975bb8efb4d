// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// History is what happened to an object, the newest last.
type History struct {
	Namespace string  `json:"namespace"`
	Kind      string  `json:"kind,omitempty"`
	Name      string  `json:"name"`
	Entries   []Entry `json:"entries"`
	// Unread is set if some events could not be read.
	Unread bool `json:"-"`
}

// Entry is an event, or a change that the object itself records.
type Entry struct {
	// Time is when it happened last; First when it first did, if it has Count times.
	Time  metav1.Time  `json:"time"`
	First *metav1.Time `json:"first,omitempty"`
	Count int32        `json:"count,omitempty"`
	// From is Event, Status for what the object keeps, or the pod of an event about one.
	From    string `json:"from"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// EntryOf returns the entry of an event.
func EntryOf(e *corev1.Event) Entry {
	entry := Entry{Time: EventTime(e), From: "Event", Type: e.Type, Reason: e.Reason, Message: e.Message}
	switch {
	case e.Series != nil:
		entry.Time, entry.Count, entry.First = metav1.NewTime(e.Series.LastObservedTime.Time), e.Series.Count, new(EventTime(e))
	case e.Count > 1:
		entry.Count, entry.First = e.Count, new(e.FirstTimestamp)
	}
	return entry
}

// Sort sorts the entries by their time.
func (h *History) Sort() {
	slices.SortStableFunc(h.Entries, func(a, b Entry) int { return a.Time.Compare(b.Time.Time) })
}

// EventTime is when an event of either API was recorded.
func EventTime(e *corev1.Event) metav1.Time {
	switch {
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	}
	return e.CreationTimestamp
}
