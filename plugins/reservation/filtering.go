// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/reservations"
	"berth.dev/berth/plugins/internal/cyclestate"
)

// cycle is the state of the plugin in a pod's scheduling cycle.
type cycle struct {
	*reservations.Attempt
	// freed is how often capacity was freed in the pod's namespace.
	freed int64
	// lacked is set if a node has too little for the pod because of what is held there for others. Clones share it.
	lacked *atomic.Bool
	// restricted is set if only the nodes of own are tried.
	restricted bool
	// taken is the Reservation whose capacity the pod uses, nil before Reserve and if there is none.
	taken *reservations.Reservation
}

var _ cyclestate.Reserved = &cycle{}

// Clone implements fwk.StateData. Preemption clones, and evicts other pods on each node in its dry run.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	clone.Attempt = c.Attempt.Clone()
	return &clone
}

// Restricts implements cyclestate.Reserved.
func (c *cycle) Restricts() bool { return c.restricted }

// Annotations implements cyclestate.Reserved.
func (c *cycle) Annotations() map[string]string {
	if c.taken == nil {
		return nil
	}
	return map[string]string{v1alpha1.ReservationAnnotation: c.taken.Object.Name}
}

// read returns the cycle of a pod, nil where nothing is held.
func read(state fwk.CycleState) *cycle {
	c, _ := cyclestate.ReadReserved(state).(*cycle)
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
	attempt, freed := pl.holdings.Attempt(pod, pl.clock.Now())
	if attempt == nil {
		return nil, skip
	}
	c := &cycle{Attempt: attempt, freed: freed, lacked: &atomic.Bool{}}
	if state.IsPodGroupSchedulingCycle() {
		attempt.RemoveMissing(pl.runs)
	}
	state.Write(cyclestate.ReservationKey, c)
	refused := pl.waiting.put(pod, c.freed, c.lacked)
	nodes := attempt.Nodes()
	if nodes == nil || refused || state.IsPodGroupSchedulingCycle() {
		return nil, nil
	}
	c.restricted = true
	return &fwk.PreFilterResult{NodeNames: nodes}, nil
}

// runs reports whether a pod is on its node in the snapshot. In the dry run of a preemption for a group of pods it is not if it
// is evicted: PreFilter runs after the victims were removed, without RemovePod.
func (pl *Reservation) runs(node string, pod types.UID) bool {
	info, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(node)
	return err == nil && slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().UID == pod })
}

// PreFilterExtensions has what a victim of preemption uses held again in the dry run, as it is once the victim is gone: without
// it, pods would be evicted again and again for one that has no place after it.
func (pl *Reservation) PreFilterExtensions() fwk.PreFilterExtensions { return pl }

// AddPod takes over that a pod runs in a dry run of preemption.
func (pl *Reservation) AddPod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, p fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	if c := read(state); c != nil {
		c.Add(p.GetPod().UID)
	}
	return nil
}

// RemovePod takes over that a pod is evicted in a dry run of preemption.
func (pl *Reservation) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, p fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	if c := read(state); c != nil {
		c.Remove(p.GetPod().UID)
	}
	return nil
}

// Filter keeps the pod off capacity that is held for others. Preemption can help: it makes more room beside it.
func (pl *Reservation) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c := read(state)
	if c == nil {
		return nil
	}
	if _, lacking := c.On(nodeInfo); lacking != "" {
		c.lacked.Store(true)
		return fwk.NewStatus(fwk.Unschedulable, reservations.LackingReason(lacking))
	}
	return nil
}

// PostFilter has a pod tried on all nodes that is not feasible where capacity is held for it. It must come before the other
// plugins: nothing is to be preempted yet.
func (pl *Reservation) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	c := read(state)
	if c == nil || !c.restricted {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	pl.waiting.refuse(pod, c.freed, c.lacked)
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
	if pl.holdings.Serves(pod, pl.clock.Now()) {
		return nil, notSigned
	}
	return nil, nil
}
