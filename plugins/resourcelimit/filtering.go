// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// cycle is the pod's size, found by PreFilter for the rest of the scheduling
// cycle: one cycle sees one generation of a limit. It is only read.
type cycle struct{ limit *registry.Compiled }

// Clone returns the cycle itself: preemption, which clones, changes nothing in it.
func (c *cycle) Clone() fwk.StateData { return c }

// limitOf returns the size of the cycle's pod, nil for none.
func limitOf(state fwk.CycleState) *registry.Compiled {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil
	}
	if c, ok := data.(*cycle); ok {
		return c.limit
	}
	return nil
}

// skip is shared: the framework does not change a status that reports it, and so it
// costs no pod without a size an allocation.
var skip = fwk.NewStatus(fwk.Skip)

// ErrReasonNotSynced is the reason for which PreEnqueue holds a pod back.
const ErrReasonNotSynced = "not all pods and ResourceLimits are known yet"

// PreFilter finds the pod's size and refuses a pod that is above it. No node and
// no preemption can help such a pod; what can wakes it.
func (pl *ResourceLimit) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod,
	_ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if status := pl.NotSynced(); status != nil {
		return nil, status
	}
	if status := perscheduler.RefuseAlone(state, pod); status != nil {
		return nil, status
	}
	size := pl.sizeOf(pod)
	switch {
	case size.Missing != "":
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, registry.MissingReason(size.Missing))
	case size.Limit == nil:
		return nil, skip
	}
	if excess := size.Limit.Exceeded(pod); len(excess) > 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, size.Limit.ExcessReason(excess))
	}
	state.Write(preFilterStateKey, &cycle{limit: size.Limit})
	if !size.Limit.Restricts() {
		return nil, skip
	}
	return nil, nil
}

// PreFilterExtensions returns nil: other pods change nothing about a pod's size.
func (pl *ResourceLimit) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter keeps the pod to the nodes of its size.
func (pl *ResourceLimit) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	limit := limitOf(state)
	if limit == nil || limit.Matches(nodeInfo.Node()) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, limit.NodeReason())
}
