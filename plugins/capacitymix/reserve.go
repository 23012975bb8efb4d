// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Reasons of a Reserve that failed; the pod is tried again at once.
const (
	ErrReasonMixChanged = "the mix changed while the pod was being scheduled"
	ErrReasonSlotLost   = "the pod's slot was taken while it was being scheduled"
	ErrReasonDomainFull = "the domain of the node was filled while the pod was being scheduled"
	ErrReasonUnitGone   = "the pods of its unit ended while the pod was being scheduled"
	ErrReasonOutrun     = "the interruption domain of the node came into quarantine while the pod was being scheduled"
)

// Reserve confirms, before the pod is bound, that its slot is still its own and
// still of the type that it was placed by. The binding that follows has a goroutine of
// its own: so it is here that a scheduling cycle waits while too many bindings are in
// progress.
func (pl *CapacityMix) Reserve(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	s := readState(cycleState)
	if s == nil {
		cycleState.Write(preFilterStateKey, pl.none)
		return nil
	}
	if !cycleState.IsPodGroupSchedulingCycle() { // otherwise no binding follows yet
		pl.Bindings.Wait(ctx)
	}
	if s.ungated {
		// It got its slot when it was ungated. The ledger may not have that yet; then the pod is counted when it is
		// seen bound.
		if err := pl.Ledger.Reserve(pod.UID, s.slot, nodeName); errors.Is(err, ledger.ErrDomainFull) {
			return pl.retry(ctx, pod, ErrReasonDomainFull)
		}
		return nil
	}
	s.changes, s.node = pl.Changes(), nodeName
	if reason := pl.outdated(pod, s, nodeName); reason != "" {
		return pl.retry(ctx, pod, reason)
	}
	var err error
	if s.member != nil {
		err = pl.take(cycleState, pod, s, nodeName)
	} else {
		err = pl.Ledger.Reserve(pod.UID, s.slot, nodeName)
	}
	switch {
	case errors.Is(err, ledger.ErrDomainFull):
		return pl.retry(ctx, pod, ErrReasonDomainFull)
	case err != nil:
		return pl.retry(ctx, pod, ErrReasonSlotLost)
	}
	return nil
}

// outdated returns why the pod may not have a node that it was tried on, "" if it may.
func (pl *CapacityMix) outdated(pod *corev1.Pod, s *preFilterState, node string) string {
	switch {
	case !pl.governs(pod, s):
		return ErrReasonMixChanged
	case s.fixed && s.member == nil && pl.Ledger.TypeFor(pod.UID) != s.slotType:
		return ErrReasonUnitGone
	case pl.outrun(s, node):
		return ErrReasonOutrun
	}
	return ""
}

// governs reports whether the mix of a pod still has the pod's slot on the type that the pod was placed by, in the group that it has the
// slot in. Where other pods of its unit determined the type, the ledger refuses another one.
func (pl *CapacityMix) governs(pod *corev1.Pod, s *preFilterState) bool {
	p, _ := pl.resolver.Resolve(pod)
	if p == nil || !s.fixed && p.Mix.TypeOf(s.slot) != s.slotType {
		return false
	}
	member, _ := pl.Member(pod, p)
	return !pl.Ledger.Elsewhere(pod.UID, member)
}

// Confirm implements mixstate.Slot. Between Reserve and Bind a pod may wait for its group, for the lock of its node or for a
// volume, while its mix changes or the domain of the node comes into quarantine.
func (s *preFilterState) Confirm(pod *corev1.Pod) error { return s.confirm(pod, false) }

// confirm is Confirm. The mix of a pod whose group is committed may have changed since.
func (s *preFilterState) confirm(pod *corev1.Pod, committed bool) error {
	if s.ungated {
		return nil // slot and type are final
	}
	current, err := s.plugin.Pods.Pods(pod.Namespace).Get(pod.Name)
	switch {
	case err != nil || current.UID != pod.UID:
		return errors.New(ErrReasonGone)
	case !committed && !s.plugin.governs(current, s):
		return errors.New(ErrReasonMixChanged)
	case !committed && s.plugin.outrun(s, s.node):
		return errors.New(ErrReasonOutrun)
	case !s.plugin.Ledger.Holds(pod.UID, s.slot):
		return errors.New(ErrReasonSlotLost)
	}
	return nil
}

// noSlot is the state of a pod that was placed without a mix. It is the same for all such pods.
type noSlot struct{ plugin *CapacityMix }

// Clone returns the state itself: nothing in it changes.
func (n *noSlot) Clone() fwk.StateData { return n }

// Confirm implements mixstate.Slot.
func (n *noSlot) Confirm(pod *corev1.Pod) error {
	if n.plugin.missedMix(pod) {
		return errors.New(ErrReasonMixChanged)
	}
	return nil
}

// retry rejects the pod and has it tried again: there is no event that would.
func (pl *CapacityMix) retry(ctx context.Context, pod *corev1.Pod, reason string) *fwk.Status {
	pl.handle.Activate(klog.FromContext(ctx), perscheduler.Pods(pod))
	return fwk.NewStatus(fwk.Unschedulable, reason)
}

// Unreserve removes the pod from its node; it keeps its claim, unless it is a member
// of a pod group. It is called after every failure past Reserve, also for pods that
// Reserve rejected.
func (pl *CapacityMix) Unreserve(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, _ string) {
	switch s := readState(cycleState); {
	case s == nil:
	case s.member != nil:
		pl.Ledger.Return(pod.UID)
	default:
		if others := pl.Ledger.Unreserve(pod.UID); len(others) > 0 {
			pl.Activate(klog.FromContext(ctx), perscheduler.Pods(others...))
		}
	}
}
