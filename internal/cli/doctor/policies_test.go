// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

func policyWith(name string, status metav1.ConditionStatus, reason, message string) *v1alpha1.SchedulingPolicy {
	p := &v1alpha1.SchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	p.Status.Conditions = []metav1.Condition{clitest.Condition(v1alpha1.ConditionAccepted, status, reason, message)}
	return p
}

func reservationWith(name string, status metav1.ConditionStatus, reason, message string) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	r.Status.Conditions = []metav1.Condition{clitest.Condition(v1alpha1.ConditionReserved, status, reason, message)}
	return r
}

func TestDoctorOnPoliciesAndReservations(t *testing.T) {
	p := &patient{cluster: &overview.Cluster{
		Policies: []*v1alpha1.SchedulingPolicy{
			policyWith("late", metav1.ConditionFalse, v1alpha1.ReasonConflict, "pods that spec.podSelector selects are governed by an older SchedulingPolicy: batch"),
			policyWith("batch", metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the policy governs all pods that it selects"),
			policyWith("broken", metav1.ConditionFalse, v1alpha1.ReasonInvalid, `spec.select.tieBreaker: "Coin" is not supported`),
			policyWith("excess", metav1.ConditionFalse, v1alpha1.ReasonTooMany, "only the 100 oldest SchedulingPolicies of a namespace govern pods"),
			policyWith("other", metav1.ConditionFalse, "Later", "a reason of a later release"),
			{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}},
		},
		Reservations: []*v1alpha1.Reservation{
			reservationWith("release", metav1.ConditionFalse, v1alpha1.ReasonUnschedulable, "capacity for 1 of 3 replicas is held or used: 0/4 nodes are available"),
			reservationWith("held", metav1.ConditionTrue, v1alpha1.ReasonReserved, "capacity for all replicas is held or used"),
			reservationWith("broken", metav1.ConditionFalse, v1alpha1.ReasonInvalid, "spec.podSelector: wrong"),
			reservationWith("excess", metav1.ConditionFalse, v1alpha1.ReasonTooMany, "only the 100 oldest"),
			reservationWith("old", metav1.ConditionFalse, v1alpha1.ReasonExpired, "the capacity is released"),
			reservationWith("spent", metav1.ConditionFalse, v1alpha1.ReasonUsed, "pods have used the capacity"),
		},
	}}
	r := &Report{}
	p.policies(r)
	p.reservations(r)
	clitest.Goldens(t, "", map[string]string{"policies.txt": printers.Text}, func(o *command.Options) error { return showReport(o, r) })
	assert.False(t, r.failed())
	for _, f := range r.Findings {
		assert.NotEmpty(t, f.Next, f.Message)
	}
}

func TestDoctorReportsTheFirstPoliciesOnly(t *testing.T) {
	p := &patient{cluster: &overview.Cluster{}}
	for i := range maxUnmet + 2 {
		p.cluster.Policies = append(p.cluster.Policies, policyWith(fmt.Sprintf("p%02d", i), metav1.ConditionFalse, v1alpha1.ReasonConflict, "an older one"))
	}
	r := &Report{}
	p.policies(r)
	require.Len(t, r.Findings, maxUnmet+1)
	assert.Equal(t, "shop/p00: Conflict: an older one", r.Findings[0].Message)
	assert.Equal(t, Finding{Level: Warn, Check: "scheduling policies", Message: "and 2 more", Next: "kubectl berth policies -A -o wide"}, r.Findings[maxUnmet])

	p.cluster.Policies = p.cluster.Policies[:maxUnmet]
	r = &Report{}
	p.policies(r)
	assert.Len(t, r.Findings, maxUnmet)
}

func TestDoctorOnPoliciesThatAreFineOrUnread(t *testing.T) {
	p := &patient{cluster: &overview.Cluster{Policies: []*v1alpha1.SchedulingPolicy{policyWith("batch", metav1.ConditionTrue, v1alpha1.ReasonAccepted, "")}}}
	r := &Report{}
	p.policies(r)
	p.reservations(r)
	assert.Equal(t, []Finding{
		{Level: OK, Check: "scheduling policies", Message: "SchedulingPolicies: 1, none with Accepted=False"},
		{Level: OK, Check: "reservations", Message: "Reservations: 0, none Unschedulable, Invalid or TooMany"},
	}, r.Findings)

	p.cluster.Problems = []overview.Problem{{Resource: "schedulingpolicies.berth.dev"}, {Resource: "reservations.berth.dev"}}
	r = &Report{}
	p.policies(r)
	p.reservations(r)
	assert.Empty(t, r.Findings, "that they cannot be read is a finding of its own")
}
