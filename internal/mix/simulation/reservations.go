// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/reservations"
)

// reservation is the name of the plugin, which this package must not import. Both the plugin and the replay use
// internal/policies/reservations.
const reservation = "Reservation"

// listReservations lists all Reservations, none if the API server does not serve them.
func listReservations(ctx context.Context, cfg *rest.Config) ([]*v1alpha1.Reservation, error) {
	return listOwn[*v1alpha1.Reservation](ctx, cfg, "reservations", func() runtime.Object { return &v1alpha1.ReservationList{} })
}

// reserved is the capacity that is held when a snapshot is taken.
type reserved struct {
	holdings *reservations.Holdings
	at       time.Time
}

func newReserved(all []*v1alpha1.Reservation, at time.Time) reserved {
	r := reserved{holdings: reservations.NewHoldings(), at: at}
	for _, object := range all {
		r.holdings.Set(object)
	}
	return r
}

// heldForOthers returns an attempt of a pod, nil if no capacity is held or the pod's profile does not regard it.
func (s *Snapshot) heldForOthers(pod *corev1.Pod) *reservations.Attempt {
	if !s.profile.replays[pod.Spec.SchedulerName].reserves {
		return nil
	}
	a, _ := s.reserved.holdings.Attempt(pod, s.reserved.at)
	return a
}

// heldForOthersOn returns why a node is not feasible for a pod, "" if it may be.
func heldForOthersOn(node fwk.NodeInfo, a *reservations.Attempt) string {
	if a == nil {
		return ""
	}
	if _, lacking := a.On(node); lacking != "" {
		return reservations.LackingReason(lacking)
	}
	return ""
}
