// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reasons of a Reserve that did not hold; the pod is tried again at once.
const (
	ErrReasonMixChanged = "the mix changed while the pod was being scheduled"
	ErrReasonSlotLost   = "the pod's slot was taken while it was being scheduled"
)

// Reserve confirms, before the pod is bound, that its slot is still its own and
// still of the type that it was placed by.
func (pl *CapacityMix) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return nil
	}
	if c.settled {
		// Its slot was taken when its gate was opened. The ledger may not have heard of that yet; then the
		// pod is counted when it is seen bound.
		_ = pl.ledger.Reserve(pod.UID, c.slot, nodeName)
		return nil
	}
	if p, _ := pl.resolver.Resolve(pod); p == nil || p.Mix.TypeOf(c.slot) != c.wants {
		return pl.again(ctx, pod, ErrReasonMixChanged)
	}
	if err := pl.ledger.Reserve(pod.UID, c.slot, nodeName); err != nil {
		return pl.again(ctx, pod, ErrReasonSlotLost)
	}
	return nil
}

// again rejects the pod and has it tried again: no event will come that wakes it.
func (pl *CapacityMix) again(ctx context.Context, pod *corev1.Pod, reason string) *fwk.Status {
	pl.handle.Activate(klog.FromContext(ctx), podsToActivate(pod))
	return fwk.NewStatus(fwk.Unschedulable, reason)
}

// Unreserve takes the pod from its node again; it keeps its claim. It is called
// after every failure past Reserve, also for pods that Reserve refused.
func (pl *CapacityMix) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) {
	if cycleOf(state) != nil {
		pl.ledger.Unreserve(pod.UID)
	}
}
