// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	resourcehelper "k8s.io/component-helpers/resource"
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
	ledger *reservations.Ledger
	at     time.Time
}

func newReserved(all []*v1alpha1.Reservation, at time.Time) reserved {
	r := reserved{ledger: reservations.NewLedger(), at: at}
	for _, object := range all {
		r.ledger.Set(object)
	}
	return r
}

// held is the capacity that is held for others than one pod.
type held struct {
	view     *reservations.View
	own      map[string]*reservations.Reservation
	requests reservations.Amounts
}

// heldForOthers returns what is held for others than a pod, nil if nothing is or the pod's profile does not regard it.
func (s *Snapshot) heldForOthers(pod *corev1.Pod) *held {
	view := s.reserved.ledger.View(s.reserved.at)
	if view.Empty() || !s.profile.replays[pod.Spec.SchedulerName].reserves {
		return nil
	}
	h := &held{view: view, requests: reservations.AmountsOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))}
	h.own, _ = s.reserved.ledger.Own(pod, s.reserved.at)
	return h
}

// rejects returns why a node is not feasible for the pod, "" if it may be.
func (h *held) rejects(node fwk.NodeInfo) string {
	if h == nil {
		return ""
	}
	lacking := h.view.Lacking(node, &h.requests, h.own[node.Node().Name])
	if lacking == "" {
		return ""
	}
	return reservations.LackingReason(lacking)
}
