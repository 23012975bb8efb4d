// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/rebalance"
)

// Day is the time that a timeline has.
const Day = 24 * time.Hour

// Lane is a kind of what happens.
type Lane string

// The lanes of a timeline, in their order.
const (
	LaneMixes     Lane = "Mixes"
	LaneMoves     Lane = "Moves"
	LaneBorrowing Lane = "Borrowing"
	LaneStorms    Lane = "Storms"
	LaneBreaker   Lane = "Breaker"
	LaneRollouts  Lane = "Rollouts"
)

// Lanes are all lanes.
func Lanes() []Lane {
	return []Lane{LaneMixes, LaneMoves, LaneBorrowing, LaneStorms, LaneBreaker, LaneRollouts}
}

// eventLanes are the lanes of events by their reasons.
var eventLanes = map[string]Lane{
	v1alpha1.EventReasonMoved: LaneMoves, v1alpha1.EventReasonReleased: LaneMoves, v1alpha1.EventReasonMoveFailed: LaneMoves,
	v1alpha1.EventReasonMoveBlocked:  LaneMoves,
	v1alpha1.EventReasonProvisioning: LaneMoves, v1alpha1.EventReasonBorrowed: LaneBorrowing,
	v1alpha1.EventReasonSpotUnavailable: LaneBreaker,
}

// TimelineReasons are the reasons of the events that a timeline has, sorted.
func TimelineReasons() (reasons []string) {
	for reason := range eventLanes {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	return reasons
}

// Happening is something that happened. All texts of it are inert.
type Happening struct {
	Time      time.Time
	Lane      Lane
	Bad       bool
	Namespace string
	Kind      string
	Name      string
	Reason    string
	Message   string
}

// HappeningOf returns the last occurrence of an event, false for an event that a timeline does not have.
func HappeningOf(e *corev1.Event) (Happening, bool) {
	lane, ok := eventLanes[e.Reason]
	if !ok {
		return Happening{}, false
	}
	of := e.InvolvedObject
	return Happening{
		Time: EntryOf(e).Time.Time, Lane: lane, Bad: e.Type == corev1.EventTypeWarning, Namespace: display.Inert(of.Namespace, maxName),
		Kind: display.Inert(of.Kind, maxName), Name: display.Inert(of.Name, maxName),
		Reason: e.Reason, Message: display.Inert(e.Message, maxMessage),
	}, true
}

// Timeline is what happened in the last day, the newest first.
type Timeline struct {
	From, To   time.Time
	Happenings []Happening
}

// TimelineOf merges events with what the objects of a reading keep: when a condition of a mix changed last, and when a revision began.
// These reach back a day whatever the API server keeps of events, and whichever replica of a controller leads.
func TimelineOf(r *Reading, events []Happening, now time.Time) *Timeline {
	t := &Timeline{From: now.Add(-Day), To: now}
	all := slices.Concat(events, r.Rollouts)
	for _, m := range r.Mixes {
		all = append(all, changes(m)...)
	}
	for _, h := range all {
		if !h.Time.Before(t.From) && !h.Time.After(now) {
			t.Happenings = append(t.Happenings, h)
		}
	}
	slices.SortStableFunc(t.Happenings, func(a, b Happening) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return t
}

// changes are those of the conditions of a mix. Each has its last change only.
func changes(m *v1alpha1.CapacityMix) (all []Happening) {
	for i := range m.Status.Conditions {
		c := &m.Status.Conditions[i]
		h := Happening{
			Time: c.LastTransitionTime.Time, Bad: c.Status == metav1.ConditionFalse, Namespace: display.Inert(m.Namespace, maxName),
			Kind: "CapacityMix", Name: display.Inert(m.Name, maxName), Reason: display.Inert(c.Reason, maxName), Message: display.Inert(c.Message, maxMessage),
		}
		switch {
		case c.Type == v1alpha1.ConditionSatisfied:
			h.Lane = LaneMixes
		case c.Type == v1alpha1.ConditionSpotAvailable && h.Bad:
			h.Lane = LaneBreaker
		case c.Type == v1alpha1.ConditionRebalancing && c.Reason == rebalance.ReasonStorm.Name:
			h.Lane = LaneStorms
		default:
			continue
		}
		all = append(all, h)
	}
	return all
}

// RolloutsOf are the ReplicaSets of Deployments that others of the same Deployment precede: each began a rollout. The API server keeps as
// many as the Deployment's revisionHistoryLimit.
func RolloutsOf(owners []metav1.Object) (all []Happening) {
	first := map[string]metav1.Object{}
	deployment := func(o metav1.Object) *metav1.OwnerReference {
		if _, is := o.(*appsv1.ReplicaSet); !is {
			return nil
		}
		return metav1.GetControllerOf(o)
	}
	before := func(a, b metav1.Object) bool {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time) < 0
	}
	for _, o := range owners {
		if ref := deployment(o); ref != nil {
			if found := first[string(ref.UID)]; found == nil || before(o, found) {
				first[string(ref.UID)] = o
			}
		}
	}
	for _, o := range owners {
		ref := deployment(o)
		if ref == nil || first[string(ref.UID)] == o {
			continue
		}
		all = append(all, Happening{
			Time: o.GetCreationTimestamp().Time, Lane: LaneRollouts, Namespace: display.Inert(o.GetNamespace(), maxName),
			Kind: display.Inert(ref.Kind, maxName),
			Name: display.Inert(ref.Name, maxName), Reason: "RolloutBegan", Message: "Revision " + display.Inert(o.GetName(), maxName),
		})
	}
	return all
}
