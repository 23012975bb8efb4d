// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/printers"
)

const aboutHistory = `Shows what happened to a record, the newest last: its events, which the cluster keeps for an hour by default, and the last applied
recommendations, which the record itself keeps.`

// History is what `records history` shows.
type History struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Entries   []HistoryEntry `json:"entries"`
}

// HistoryEntry is an event, or a recommendation that was applied.
type HistoryEntry struct {
	// Time is when it happened last; First when it first did, if it has Count times.
	Time  metav1.Time  `json:"time"`
	First *metav1.Time `json:"first,omitempty"`
	Count int32        `json:"count,omitempty"`
	// From is Event, or Status for what the record keeps.
	From    string `json:"from"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func newHistory(o *command.Options) *cobra.Command {
	cmd := aRecord(o, "history", "Show the events of a record", aboutHistory, "  kubectl berth records history cart",
		func(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord) error {
			var events corev1.EventList
			err := c.List(ctx, &events, client.InNamespace(rec.Namespace), client.MatchingFieldsSelector{
				Selector: fields.OneTermEqualSelector("involvedObject.uid", string(rec.UID)),
			})
			if err != nil {
				o.Warn("cannot read the events of the record: %v", err)
			}
			return showHistory(o, historyOf(rec, events.Items))
		})
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// historyOf merges events with what was applied, the newest last. What an event tells as well is told once.
func historyOf(rec *v1alpha1.DeploymentRecord, events []corev1.Event) *History {
	h := &History{Namespace: rec.Namespace, Name: rec.Name, Entries: []HistoryEntry{}}
	for i := range events {
		e := &events[i]
		entry := HistoryEntry{Time: live.EventTime(e), From: "Event", Type: e.Type, Reason: e.Reason, Message: e.Message}
		switch {
		case e.Series != nil:
			entry.Time, entry.Count, entry.First = metav1.NewTime(e.Series.LastObservedTime.Time), e.Series.Count, new(live.EventTime(e))
		case e.Count > 1:
			entry.Count, entry.First = e.Count, new(e.FirstTimestamp)
		}
		h.Entries = append(h.Entries, entry)
	}
	for i := range rec.Status.LastApplied {
		a := &rec.Status.LastApplied[i]
		if told(h.Entries, a) {
			continue
		}
		message := fmt.Sprintf("%s of %s set to %s, recommended %s", a.Dimension, a.Component, a.Dimension.Format(a.Value),
			a.Dimension.Format(a.Target))
		if a.Basis != "" {
			message += ": " + a.Basis
		}
		h.Entries = append(h.Entries, HistoryEntry{
			Time: a.Time, From: "Status", Type: corev1.EventTypeNormal,
			Reason: v1alpha1.EventReasonNFRApplied, Message: message,
		})
	}
	slices.SortStableFunc(h.Entries, func(a, b HistoryEntry) int { return a.Time.Compare(b.Time.Time) })
	return h
}

// told reports whether an event tells of a recommendation that was applied. The
// two are written one after the other, and the time of the status is rounded up.
func told(entries []HistoryEntry, a *v1alpha1.AppliedRecommendation) bool {
	return slices.ContainsFunc(entries, func(e HistoryEntry) bool {
		return e.Reason == v1alpha1.EventReasonNFRApplied && e.Time.Sub(a.Time.Time).Abs() <= 5*time.Second &&
			strings.Contains(e.Message, fmt.Sprintf(" %s from ", a.Component))
	})
}

func showHistory(o *command.Options, h *History) error {
	t := &printers.Table{Header: []string{"TIME", "AGE", "TYPE", "REASON", "FROM", "MESSAGE"}}
	for i := range h.Entries {
		e := &h.Entries[i]
		ago := o.Age(e.Time)
		if e.Count > 1 {
			ago += fmt.Sprintf(" (x%d over %s)", e.Count, o.Age(*e.First))
		}
		t.Add(e.Time.UTC().Format(time.RFC3339), ago, e.Type, e.Reason, e.From, e.Message)
	}
	return o.PrintList(h, t, fmt.Sprintf("No events found for DeploymentRecord %s/%s. The cluster keeps events for a limited time.",
		h.Namespace, h.Name))
}
