// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

var reservationList = listOf[*v1alpha1.Reservation]{
	id: "reservations", title: "Reservations", kind: "Reservation", noun: "reservation", resource: overview.ReservationsResource,
	of:      func(r *overview.Reading) []*v1alpha1.Reservation { return r.Reservations },
	columns: reservationColumns, detailed: reservationDetails,
	empty: `<h2>No reservation</h2><p>A Reservation holds capacity on nodes for pods that come later.</p>`,
}

func reservationColumns(s *state) []column[*v1alpha1.Reservation] {
	type reservation = *v1alpha1.Reservation
	return []column[reservation]{
		nameColumn[reservation]("Reservation", "reservations"),
		{"for", "For", false, func(r reservation) value { return textValue(reservedFor(r)) }},
		{"size", "Capacity of each", false, func(r reservation) value { return textValue(reservedSize(r)) }},
		{"replicas", "Pods", true, func(r reservation) value { return numberValue(int(replicasOf(r))) }},
		{"held", "Held", true, func(r reservation) value { return countOf(r, r.Status.HeldCount) }},
		{"used", "Used", true, func(r reservation) value { return countOf(r, r.Status.UsedCount) }},
		{"status", "Status", false, reservationState},
		{"expires", "Expires", true, func(r reservation) value { return expires(r, s) }},
	}
}

// countOf is a number of the status of a Reservation.
func countOf(r *v1alpha1.Reservation, n int32) value {
	return reported(r.Status.ObservedGeneration, r.Generation, numberValue(int(n)))
}

func reservationState(r *v1alpha1.Reservation) value {
	v := conditionValue(r.Status.Conditions, v1alpha1.ConditionReserved, "Reserved")
	if ended(r) {
		v.Class = "plain"
	}
	return stale(r.Status.ObservedGeneration, r.Generation, v)
}

// ended reports whether a Reservation has ended as it was to: its capacity was used, or released at its expiration.
func ended(r *v1alpha1.Reservation) bool {
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReserved)
	return c != nil && c.Status == metav1.ConditionFalse && (c.Reason == v1alpha1.ReasonUsed || c.Reason == v1alpha1.ReasonExpired)
}

func reservedFor(r *v1alpha1.Reservation) string {
	if r.Spec.PodName != "" {
		return "pod " + r.Spec.PodName
	}
	return selectorText(r.Spec.PodSelector)
}

func reservedSize(r *v1alpha1.Reservation) string {
	var all []string
	if r.Spec.CPU != nil {
		all = append(all, r.Spec.CPU.String()+" CPU")
	}
	if r.Spec.Memory != nil {
		all = append(all, r.Spec.Memory.String()+" memory")
	}
	if r.Spec.EphemeralStorage != nil {
		all = append(all, r.Spec.EphemeralStorage.String()+" storage")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Spec.ExtendedResources)) {
		all = append(all, fmt.Sprintf("%d %s", r.Spec.ExtendedResources[name], name))
	}
	return strings.Join(all, ", ")
}

func replicasOf(r *v1alpha1.Reservation) int32 {
	if r.Spec.Replicas == nil {
		return 1
	}
	return *r.Spec.Replicas
}

func expires(r *v1alpha1.Reservation, s *state) value {
	if r.Status.ExpirationTime == nil {
		return value{}
	}
	return timeValue(s.at, *r.Status.ExpirationTime)
}

func reservationDetails(r *v1alpha1.Reservation, path string, q url.Values, s *state) *details {
	d := &details{Conditions: conditionViews(s, r.Status.Conditions)}
	d.fact("Status", reservationState(r))
	d.fact("For", textValue(reservedFor(r)))
	d.fact("Capacity of each", textValue(reservedSize(r)))
	d.fact("Pods", numberValue(int(replicasOf(r))))
	d.fact("Held", countOf(r, r.Status.HeldCount))
	d.fact("Used", countOf(r, r.Status.UsedCount))
	d.fact("Only on node", linkValue(r.Spec.NodeName, nodeURL(s, r.Spec.NodeName)))
	d.fact("Scheduler", textValue(r.Spec.SchedulerName))
	d.fact("Created", timeValue(s.at, r.CreationTimestamp))
	d.fact("Expires", expires(r, s))
	holds := make([]heldPlace, 0, len(r.Status.Holds))
	for i := range r.Status.Holds {
		holds = append(holds, heldPlace{&r.Status.Holds[i], i})
	}
	d.parts = holdListing(r, s).parts(path, q, holds)
	return d
}

// holdListing lists the places where a Reservation holds capacity.
func holdListing(r *v1alpha1.Reservation, s *state) listing[heldPlace] {
	return listing[heldPlace]{
		id: "holds", label: "Holds", noun: "hold", empty: template.HTML("<p>It holds no capacity.</p>"),
		unknown: display.Reported(r.Status.ObservedGeneration, r.Generation) == display.ReportAbsent,
		why:     "the scheduler has not reported them",
		row:     func(h heldPlace) string { return fmt.Sprint(h.place) },
		columns: []column[heldPlace]{
			{"node", "Node", false, func(h heldPlace) value { return linkValue(h.NodeName, nodeURL(s, h.NodeName)) }},
			{"pod", "Used by", false, func(h heldPlace) value {
				switch {
				case h.PodName != "":
					return linkValue(h.PodName, s.podURL(r.Namespace, h.PodName))
				case ended(r):
					return value{Text: "released", Class: "dim", Plain: true}
				}
				return value{Text: "free", Class: "dim", Plain: true}
			}},
		},
	}
}

// heldPlace is a hold, with its place in the list.
type heldPlace struct {
	*v1alpha1.Hold
	place int
}
