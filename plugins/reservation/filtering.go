// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/reservations"
	"berth.dev/berth/plugins/internal/perscheduler"
	"berth.dev/berth/plugins/internal/reservationstate"
)

// cycle is what the plugin knows in a pod's scheduling cycle.
type cycle struct {
	view *reservations.View
	// requests is what the pod requests.
	requests reservations.Amounts
	// own is the capacity that is held for the pod, by node.
	own map[string]*reservations.Reservation
	// freed is that of the ledger.
	freed int64
	// restricted is set if only the nodes of own are tried.
	restricted bool
	// taken is the Reservation whose capacity the pod uses, nil before Reserve and if there is none.
	taken *reservations.Reservation
}

var _ reservationstate.Reserved = &cycle{}

// Clone implements fwk.StateData. The cycle itself is returned: preemption, which clones, changes nothing in it.
func (c *cycle) Clone() fwk.StateData { return c }

// Restricts implements reservationstate.Reserved.
func (c *cycle) Restricts() bool { return c.restricted }

// Annotations implements reservationstate.Reserved.
func (c *cycle) Annotations() map[string]string {
	if c.taken == nil {
		return nil
	}
	return map[string]string{v1alpha1.ReservationAnnotation: c.taken.Object.Name}
}

// read returns the cycle of a pod, nil where nothing is held.
func read(state fwk.CycleState) *cycle {
	c, _ := reservationstate.Read(state).(*cycle)
	return c
}

// skip is shared: the framework does not change a status that reports it, and so it costs no pod an allocation where nothing
// is held.
var skip = fwk.NewStatus(fwk.Skip)

// PreFilter determines what is held, for the rest of the scheduling cycle. A pod for which capacity is held is tried on those
// nodes first: in a large cluster the scheduler stops its search before it has seen them all.
func (pl *Reservation) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if status := pl.NotSynced(); status != nil {
		return nil, status
	}
	now := pl.clock.Now()
	view := pl.ledger.View(now)
	if view.Empty() {
		return nil, skip
	}
	c := &cycle{view: view, requests: reservations.AmountsOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))}
	c.own, c.freed = pl.ledger.Own(pod, now)
	state.Write(reservationstate.Key, c)
	refused := pl.waiting.put(pod, c.freed)
	if len(c.own) == 0 || refused || state.IsPodGroupSchedulingCycle() {
		return nil, nil
	}
	c.restricted = true
	return &fwk.PreFilterResult{NodeNames: sets.KeySet(c.own)}, nil
}

// PreFilterExtensions returns nil: what is held does not depend on other pods, and Filter reads what a node has free.
func (pl *Reservation) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter keeps the pod off capacity that is held for others. Preemption can help: it makes more room beside it.
func (pl *Reservation) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c := read(state)
	if c == nil {
		return nil
	}
	if lacking := c.view.Lacking(nodeInfo, &c.requests, c.own[nodeInfo.Node().Name]); lacking != "" {
		return fwk.NewStatus(fwk.Unschedulable, reservations.LackingReason(lacking))
	}
	return nil
}

// PostFilter has a pod tried on all nodes that is not feasible where capacity is held for it. It must stand before the other
// plugins: there is nothing to preempt yet.
func (pl *Reservation) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	c := read(state)
	if c == nil || !c.restricted {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	pl.waiting.refuse(pod, c.freed)
	pl.waiting.activate(perscheduler.Pods(pod))
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no node where a Reservation holds capacity for the pod is feasible")
}

// EventsToRegister names the events after which a pod that this plugin rejected can have a place. Reservations that end wake
// pods through waiting.
func (pl *Reservation) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete | fwk.UpdatePodScaleDown}},
	}, nil
}

// ErrReasonNotSigned is the reason for which a pod has no signature. It is logged.
const ErrReasonNotSigned = "a Reservation may hold capacity for the pod"

// notSigned is shared, like skip: the framework does not change the status of a SignPod.
var notSigned = fwk.NewStatus(fwk.Unschedulable, ErrReasonNotSigned)

// SignPod signs no pod that a Reservation selects: one of two pods with the same signature would use the capacity, and the
// other could not. It is called under the lock of the scheduling queue.
func (pl *Reservation) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !pl.HasSynced() {
		return nil, notSigned
	}
	if own, _ := pl.ledger.Own(pod, pl.clock.Now()); own != nil {
		return nil, notSigned
	}
	return nil, nil
}
