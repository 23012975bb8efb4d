// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// PoliciesResource and ReservationsResource are how problems call the lists of SchedulingPolicies and Reservations.
const (
	PoliciesResource     = "schedulingpolicies." + v1alpha1.GroupName
	ReservationsResource = "reservations." + v1alpha1.GroupName
)

// LoadPolicies reads the SchedulingPolicies and Reservations of a namespace, or all with "".
func (c *Cluster) LoadPolicies(ctx context.Context, cl client.Client, namespace string) error {
	l := &loader{ctx: ctx, client: cl}
	c.Policies = objects[*v1alpha1.SchedulingPolicy](l, namespace, PoliciesResource, &v1alpha1.SchedulingPolicyList{})
	c.Reservations = objects[*v1alpha1.Reservation](l, namespace, ReservationsResource, &v1alpha1.ReservationList{})
	c.Problems = append(c.Problems, l.problems...)
	return l.err
}
