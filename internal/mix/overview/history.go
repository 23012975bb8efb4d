// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// History is what happened to an object, the newest last.
type History struct {
	Namespace string  `json:"namespace"`
	Kind      string  `json:"kind,omitempty"`
	Name      string  `json:"name"`
	Entries   []Entry `json:"entries"`
	// Refusals are the moves that were not made, by reason, the one that was reported last first.
	Refusals []Refusal `json:"refusals,omitempty"`
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
	// Blocked is why a move was not made, "" for other events.
	Blocked string `json:"blocked,omitempty"`
}

// Refusal is why moves were not made.
type Refusal struct {
	Reason string `json:"reason"`
	// Count is how often it was reported: when it became the reason, and by each new leader.
	Count int         `json:"count"`
	First metav1.Time `json:"first"`
	Last  metav1.Time `json:"last"`
	// Message is the last one.
	Message string `json:"message"`
}

// refusalsOf counts refusals by reason. There are as many reasons as the rebalancer has: whoever may create events may write others.
func refusalsOf(entries []Entry) (list []Refusal) {
	by := map[string]*Refusal{}
	for i := range entries {
		e := &entries[i]
		if e.Blocked == "" {
			continue
		}
		r := by[e.Blocked]
		if r == nil {
			r = &Refusal{Reason: e.Blocked, First: e.Time}
			by[e.Blocked] = r
		}
		r.Count += max(int(e.Count), 1)
		for _, at := range []*metav1.Time{e.First, &e.Time} {
			if at != nil && at.Before(&r.First) {
				r.First = *at
			}
		}
		if !e.Time.Before(&r.Last) {
			r.Last, r.Message = e.Time, e.Message
		}
	}
	for _, r := range by {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Refusal) int {
		return cmp.Or(b.Last.Compare(a.Last.Time), cmp.Compare(a.Reason, b.Reason))
	})
	return list
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
	if e.Reason == v1alpha1.EventReasonMoveBlocked {
		if r := rebalance.Named(e.Annotations[v1alpha1.BlockedReasonAnnotation]); r != nil {
			entry.Blocked = r.Name
		}
	}
	return entry
}

// Sort sorts the entries by their time, and counts the refusals.
func (h *History) Sort() {
	h.Refusals = refusalsOf(h.Entries)
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
