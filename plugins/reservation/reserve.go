// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/plugins/capacitymix"
	"berth.dev/berth/plugins/internal/binding"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Reasons for which a pod is not bound to a node whose capacity is held for it.
const (
	ErrReasonLost    = "the capacity that a Reservation held for the pod was released while the pod was being scheduled"
	ErrReasonExpired = "the Reservation that holds the capacity has expired before the pod was bound"
)

// Reserve has the pod use what is held for it on its node.
func (pl *Reservation) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := read(state)
	if c == nil {
		return nil
	}
	own := c.For(nodeName, func() fwk.NodeInfo { return pl.without(ctx, pod, nodeName) })
	if own == nil {
		return nil
	}
	if !pl.holdings.Take(pod, own, nodeName, pl.clock.Now()) {
		pl.waiting.activate(perscheduler.Pods(pod))
		return fwk.NewStatus(fwk.Unschedulable, ErrReasonLost)
	}
	c.taken = own
	return nil
}

// without returns a node of the snapshot without a pod, which is there already where the pod is placed with its group; nil if
// the node is gone.
func (pl *Reservation) without(ctx context.Context, pod *corev1.Pod, nodeName string) fwk.NodeInfo {
	node, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return nil
	}
	if slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool { return p.GetPod().UID == pod.UID }) {
		node = node.Snapshot()
		_ = node.RemovePod(klog.FromContext(ctx), pod) // it is there
	}
	return node
}

// Unreserve gives the capacity back. It can be called twice, and without Reserve.
func (pl *Reservation) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) {
	if c := read(state); c != nil {
		pl.holdings.Return(pod)
		c.taken = nil
	}
}

// Bind binds a pod that uses what was held for it, and writes the name of the Reservation on it. A pod with a mix is left to
// CapacityMix, which writes that name as well.
func (pl *Reservation) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := read(state)
	if c == nil || c.taken == nil {
		return skip
	}
	if !pl.clock.Now().Before(c.taken.Expires) {
		pl.waiting.activate(perscheduler.Pods(pod))
		return fwk.NewStatus(fwk.Unschedulable, ErrReasonExpired)
	}
	if capacitymix.Governs(state) {
		return skip
	}
	return fwk.AsStatus(binding.Make(ctx, pl.handle, binding.Of(pod, nodeName, c.Annotations())))
}
