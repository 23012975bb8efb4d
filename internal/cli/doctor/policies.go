// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// maxUnmet is the number of objects of a kind that are reported one by one: a namespace can have hundreds.
const maxUnmet = 10

// policyFixes and reservationFixes are what to do about an object, by the reason of its condition.
var (
	policyFixes = map[string]string{
		v1alpha1.ReasonConflict: "make one of the selectors narrower, or delete one of the policies",
		v1alpha1.ReasonInvalid:  "correct the spec of the policy",
		v1alpha1.ReasonTooMany:  "delete policies of the namespace that are not needed",
	}
	reservationFixes = map[string]string{
		v1alpha1.ReasonUnschedulable: "free or add capacity, reduce spec.replicas, or delete the Reservation",
		v1alpha1.ReasonInvalid:       "delete the Reservation and create a valid one",
		v1alpha1.ReasonTooMany:       "delete Reservations of the namespace that are not needed",
	}
)

// unmet is an object whose condition is False.
type unmet struct{ name, reason, message string }

// unmetOf adds an object to a list if its condition is False.
func unmetOf(list []unmet, object client.Object, conditions []metav1.Condition, condition string) []unmet {
	c := meta.FindStatusCondition(conditions, condition)
	if c == nil || c.Status != metav1.ConditionFalse {
		return list
	}
	return append(list, unmet{object.GetNamespace() + "/" + object.GetName(), c.Reason, c.Message})
}

// policies finds SchedulingPolicies that the controller does not accept.
func (p *patient) policies(r *Report) {
	const check = "scheduling policies"
	if p.cluster.Missing(overview.PoliciesResource) {
		return
	}
	var bad []unmet
	for _, o := range p.cluster.Policies {
		bad = unmetOf(bad, o, o.Status.Conditions, v1alpha1.ConditionAccepted)
	}
	if len(bad) == 0 {
		r.add(OK, check, "", "SchedulingPolicies: %d, none with Accepted=False", len(p.cluster.Policies))
		return
	}
	r.addUnmet(check, bad, "kubectl berth policies -A -o wide", func(u unmet) string {
		return cmp.Or(policyFixes[u.reason], "correct the policy")
	})
}

// reservations finds Reservations that hold too little. One that has expired or is used up is as it should be.
func (p *patient) reservations(r *Report) {
	const check = "reservations"
	if p.cluster.Missing(overview.ReservationsResource) {
		return
	}
	var bad []unmet
	for _, o := range p.cluster.Reservations {
		bad = unmetOf(bad, o, o.Status.Conditions, v1alpha1.ConditionReserved)
	}
	bad = slices.DeleteFunc(bad, func(u unmet) bool { return reservationFixes[u.reason] == "" })
	if len(bad) == 0 {
		r.add(OK, check, "", "Reservations: %d, none Unschedulable, Invalid or TooMany", len(p.cluster.Reservations))
		return
	}
	r.addUnmet(check, bad, "kubectl berth reservations -A -o wide", func(u unmet) string { return reservationFixes[u.reason] })
}

// addUnmet warns of the first objects of a list, and of the number of the others, which show prints.
func (r *Report) addUnmet(check string, list []unmet, show string, fix func(unmet) string) {
	slices.SortFunc(list, func(a, b unmet) int { return cmp.Compare(a.name, b.name) })
	for _, u := range list[:min(len(list), maxUnmet)] {
		r.add(Warn, check, fix(u), "%s: %s: %s", u.name, u.reason, u.message)
	}
	if more := len(list) - maxUnmet; more > 0 {
		r.add(Warn, check, show, "and %d more", more)
	}
}
