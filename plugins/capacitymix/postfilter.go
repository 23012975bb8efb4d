// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/stages"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// PostFilter moves a pod that found no node to the next stage. It must come
// before DefaultPreemption, which runs in the last stage only: nothing is
// preempted while there is capacity elsewhere.
func (pl *CapacityMix) PostFilter(
	ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	s := readState(cycleState)
	if s == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if len(s.finalists) > 0 {
		s.sampler.Reject(s.slotType, s.finalists)
	}
	if s.limited.found() {
		pl.Ledger.Refused(pod.UID)
	}
	logger := klog.FromContext(ctx)
	now := pl.clock.Now()
	next := stages.After(pl.failure(s, pod, now), s.governing)
	pl.Ledger.SetAttempt(pod.UID, s.slot, next.Attempt)
	metrics.StageTransitions.WithLabelValues(s.attempt.Stage.String(), next.Attempt.Stage.String()).Inc()
	logger.V(4).Info("No node for the pod",
		"pod", klog.KObj(pod), "slot", s.slot, "type", s.slotType, "stage", s.attempt.Stage, "next", next.Attempt.Stage, "retry",
		next.Retry)
	if next.Retry {
		pl.handle.Activate(logger, perscheduler.Pods(pod))
	}
	if !next.RetryAt.IsZero() {
		pl.Timers.Set(pod, next.RetryAt, next.RetryAt.Sub(now))
	}
	if next.Preempt && pl.limitPreemption(s, statuses) {
		if next.Message == "" {
			return nil, fwk.NewStatus(fwk.Unschedulable)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable, next.Message)
	}
	// Keeps DefaultPreemption, which comes after, from running.
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, next.Message)
}

// failure describes the attempt that found no node.
func (pl *CapacityMix) failure(s *preFilterState, pod *corev1.Pod, now time.Time) stages.Failure {
	f := stages.Failure{
		Attempt:         s.attempt,
		SlotType:        s.slotType,
		NoCapacitySince: noCapacitySince(s, pod, now),
		Now:             now,
		Nominated:       s.nominated,
		Terminating:     s.nominated && pl.victimsTerminate(pod),
	}
	if !s.ungated && (s.attempt.Stage == ledger.StageType || s.attempt.Stage == ledger.StagePreempt) {
		f.GrowingTo = pl.Owners.GrowingTo(pod)
	}
	return f
}

// nodeStatuses is what the scheduler passes as fwk.NodeToStatusReader, its NodeToStatus, which can be changed.
type nodeStatuses interface {
	ForEachExplicitNode(use func(node string, status *fwk.Status))
	Set(node string, status *fwk.Status)
}

// limitPreemption limits preemption to nodes of the slot's type. It returns false
// if it could not.
//
// A pod that may borrow was tried on both types in one attempt, and it must be
// the last one: only then does the queue have the reasons of the nodes of both
// types, and wakes the pod for either. So the nodes of the other type are removed
// from the candidates here, their reasons kept.
func (pl *CapacityMix) limitPreemption(s *preFilterState, statuses fwk.NodeToStatusReader) bool {
	if s.attempt.Stage != ledger.StageBorrow {
		return true // Filter has rejected the others already
	}
	all, ok := statuses.(nodeStatuses)
	if !ok {
		return false
	}
	all.ForEachExplicitNode(func(name string, status *fwk.Status) {
		if n, _ := pl.Ledger.Node(name); n.Type != s.slotType && status.Code() == fwk.Unschedulable {
			all.Set(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Reasons()...).WithPlugin(status.Plugin()))
		}
	})
	return true
}

// noCapacitySince returns since when the pod is known to find no free capacity on its type.
// The ledger has it unless the scheduler was restarted in between; then the pod's
// condition has it, if this plugin wrote it: a pod can have been unschedulable
// for another reason for long.
func noCapacitySince(s *preFilterState, pod *corev1.Pod, now time.Time) time.Time {
	if !s.attempt.NoCapacitySince.IsZero() || s.attempt.Stage == ledger.StageSample {
		return s.attempt.NoCapacitySince
	}
	if s.attempt.TypeChanged {
		return now
	}
	c := ledger.Unschedulable(pod)
	if c == nil {
		return now
	}
	return waitBegan(c.Message, c.LastTransitionTime.Time, s.slotType, now)
}

// waitBegan is the time in the message of a condition, now if there is none that can be true.
func waitBegan(message string, transition time.Time, t capacity.Type, now time.Time) time.Time {
	since, found := stages.NoCapacitySince(message, t)
	if found && since.Before(now) && !since.Before(transition) {
		return since
	}
	return now
}
