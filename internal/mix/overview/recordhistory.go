// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// RecordHistory merges the events of a record with what was applied. What an event reports as well is shown once.
func RecordHistory(rec *v1alpha1.DeploymentRecord, events []corev1.Event) *History {
	h := &History{Namespace: rec.Namespace, Name: rec.Name, Entries: []Entry{}}
	for i := range events {
		h.Entries = append(h.Entries, EntryOf(&events[i]))
	}
	for i := range rec.Status.LastApplied {
		a := &rec.Status.LastApplied[i]
		if reported(h.Entries, a) {
			continue
		}
		message := fmt.Sprintf("%s of %s set to %s, recommended %s", a.Dimension, a.Component, a.Dimension.Format(a.Value),
			a.Dimension.Format(a.Target))
		if a.Basis != "" {
			message += ": " + a.Basis
		}
		h.Entries = append(h.Entries, Entry{
			Time: a.Time, From: "Status", Type: corev1.EventTypeNormal,
			Reason: v1alpha1.EventReasonNFRApplied, Message: message,
		})
	}
	return h
}

// reported reports whether an event is about a recommendation that was applied. The
// two are written one after the other, and the time of the status is rounded up.
func reported(entries []Entry, a *v1alpha1.AppliedRecommendation) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool {
		return e.Reason == v1alpha1.EventReasonNFRApplied && e.Time.Sub(a.Time.Time).Abs() <= 5*time.Second &&
			strings.Contains(e.Message, fmt.Sprintf(" %s from ", a.Component))
	})
}
