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
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/overview"
)

const aboutHistory = `Shows what happened to a record, the newest last: its events, which the cluster keeps for an hour by default, and the last applied
recommendations, which the record itself keeps.`

func newHistory(o *command.Options) *cobra.Command {
	cmd := aRecord(o, "history", "Show the events of a record", aboutHistory, "  kubectl berth records history cart",
		func(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord) error {
			return ShowHistory(o, readHistory(ctx, c, o.Warn, rec))
		})
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// ReadHistory returns what happened to a record.
func ReadHistory(ctx context.Context, u *live.User, record client.ObjectKey) (*overview.History, error) {
	rec, err := recordKind.Get(ctx, u.Client, record.Namespace, record.Name)
	if err != nil {
		return nil, err
	}
	return readHistory(ctx, u.Client, u.Warn, rec), nil
}

func readHistory(ctx context.Context, c client.Client, warn func(format string, args ...any), rec *v1alpha1.DeploymentRecord) *overview.History {
	var events corev1.EventList
	err := c.List(ctx, &events, client.InNamespace(rec.Namespace), client.MatchingFieldsSelector{
		Selector: fields.OneTermEqualSelector("involvedObject.uid", string(rec.UID)),
	})
	if err != nil {
		warn("cannot read the events of the record: %v", err)
	}
	return historyOf(rec, events.Items)
}

// historyOf merges events with what was applied. What an event reports as well is shown once.
func historyOf(rec *v1alpha1.DeploymentRecord, events []corev1.Event) *overview.History {
	h := &overview.History{Namespace: rec.Namespace, Name: rec.Name, Entries: []overview.Entry{}}
	for i := range events {
		h.Entries = append(h.Entries, overview.EntryOf(&events[i]))
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
		h.Entries = append(h.Entries, overview.Entry{
			Time: a.Time, From: "Status", Type: corev1.EventTypeNormal,
			Reason: v1alpha1.EventReasonNFRApplied, Message: message,
		})
	}
	return h
}

// told reports whether an event is about a recommendation that was applied. The
// two are written one after the other, and the time of the status is rounded up.
func told(entries []overview.Entry, a *v1alpha1.AppliedRecommendation) bool {
	return slices.ContainsFunc(entries, func(e overview.Entry) bool {
		return e.Reason == v1alpha1.EventReasonNFRApplied && e.Time.Sub(a.Time.Time).Abs() <= 5*time.Second &&
			strings.Contains(e.Message, fmt.Sprintf(" %s from ", a.Component))
	})
}

// ShowHistory prints the history of a record.
func ShowHistory(o *command.Options, h *overview.History) error {
	return o.PrintHistory(h, fmt.Sprintf("No events found for DeploymentRecord %s/%s. The cluster keeps events for a limited time.", h.Namespace, h.Name))
}
