// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/overview"
)

func workloadHistory(r *report, object []string, _ url.Values) error {
	workload := client.ObjectKey{Namespace: object[0], Name: object[2]}
	r.title = "History of " + object[2]
	if object[1] == mixList.kind {
		r.back = objectURL(mixList.id, object[0], object[2])
	}
	r.read = historyOf(r, func(ctx context.Context, reports Reports) (*overview.History, []string, error) {
		return reports.History(ctx, object[1], workload)
	})
	return nil
}

func recordHistory(r *report, object []string, _ url.Values) error {
	r.title = "History of " + object[1]
	r.read = historyOf(r, func(ctx context.Context, reports Reports) (*overview.History, []string, error) {
		return reports.RecordHistory(ctx, keyOf(object))
	})
	return nil
}

func historyOf(r *report, of func(context.Context, Reports) (*overview.History, []string, error)) read {
	return func(ctx context.Context, reports Reports) (draw, []string, error) {
		h, warnings, err := of(ctx, reports)
		if err != nil {
			return nil, nil, err
		}
		h.Sort()
		return func(s *state, at *url.URL) []*part { return historyParts(r.back, h, s, at) }, warnings, nil
	}
}

// entry is an entry of a history with its place in it, which identifies it.
type entry struct {
	overview.Entry
	place int
}

// historyParts show a history, the newest first.
func historyParts(back string, h *overview.History, s *state, at *url.URL) []*part {
	entries := make([]entry, 0, len(h.Entries))
	for i := range h.Entries {
		entries = append(entries, entry{h.Entries[i], i})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.place, a.place) })
	l := listing[entry]{
		id: "history", label: "History", noun: "entry", unknown: h.Unread, row: func(e entry) string { return fmt.Sprint(e.place) },
		empty: template.HTML("<p>No events were found. The cluster keeps events for a limited time, an hour by default.</p>"),
		columns: []column[entry]{
			{"time", "When", true, func(e entry) value {
				v := timesValue(s, &e.Entry)
				v.order = int64(e.place) // the API server keeps the times of many events in seconds
				return v
			}},
			{"reason", "Reason", false, func(e entry) value { return badgeValue(e.Reason, reasonClass(e.Type)) }},
			{"from", "About", false, func(e entry) value { return fromValue(h, e.From, s) }},
			{"message", "Message", false, func(e entry) value { return textValue(e.Message) }},
		},
	}
	return append([]*part{{id: "back", before: render("back", back)}}, l.parts(at.Path, at.Query(), entries)...)
}

// timesValue is when an entry happened last, with how often and since when.
func timesValue(s *state, e *overview.Entry) value {
	v := timeValue(s.at, e.Time)
	if e.Count > 1 {
		v.Note = fmt.Sprintf("%d times", e.Count)
		if e.First != nil && !e.First.IsZero() {
			v.Note += " since " + agoOf(s.at, *e.First)
		}
	}
	return v
}

func reasonClass(kind string) string {
	if kind == corev1.EventTypeWarning {
		return "warn"
	}
	return "plain"
}

// fromValue is what an entry is about: the object itself, or one of its pods.
func fromValue(h *overview.History, from string, s *state) value {
	if from == "Event" || from == "Status" {
		return textValue(cmp.Or(h.Kind, "DeploymentRecord") + " " + h.Name)
	}
	return linkValue(from, s.podURL(h.Namespace, from))
}

// conditionView is a condition as pages show it. All texts are inert.
type conditionView struct {
	Type, Status, Reason, Message string
	Class                         string
	Since                         template.HTML
}

// conditionViews are conditions. Those that report what is not as it should be are marked.
func conditionViews(s *state, all []metav1.Condition) (views []conditionView) {
	for i := range all {
		c := &all[i]
		v := conditionView{Type: inert(c.Type), Status: inert(string(c.Status)), Reason: inert(c.Reason), Message: inert(c.Message)}
		if !c.LastTransitionTime.IsZero() {
			v.Since = timeTag(s.at, c.LastTransitionTime)
		}
		views = append(views, v)
	}
	return views
}
