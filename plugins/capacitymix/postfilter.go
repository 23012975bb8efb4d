// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/plugins/capacitymix/ledger"
)

// PostFilter moves a pod that found no node to the next stage. It must stand
// before DefaultPreemption: only in the last stage preemption has its turn, so
// nothing is preempted while there is room elsewhere.
func (pl *CapacityMix) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ framework.NodeToStatusReader) (*framework.PostFilterResult, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	logger := klog.FromContext(ctx)
	now := pl.clock.Now()
	f := failure{attempt: c.attempt, wants: c.wants, noRoomSince: noRoomSince(c, pod, now), now: now}
	if c.attempt.Stage == ledger.StageType {
		f.growingTo = pl.growingTo(pod)
	}
	n := after(f, c.policy)
	pl.ledger.SetAttempt(pod.UID, c.slot, n.attempt)
	stageTransitions.WithLabelValues(c.attempt.Stage.String(), n.attempt.Stage.String()).Inc()
	logger.V(4).Info("No node for the pod", "pod", klog.KObj(pod), "slot", c.slot, "type", c.wants, "stage", c.attempt.Stage, "next", n.attempt.Stage, "retry", n.retry)
	if n.retry {
		pl.handle.Activate(logger, podsToActivate(pod))
	}
	if !n.wake.IsZero() {
		pl.clock.AfterFunc(n.wake.Sub(now), func() { pl.handle.Activate(logger, podsToActivate(pod)) })
	}
	if n.preempt {
		return nil, fwk.NewStatus(fwk.Unschedulable, n.message)
	}
	// Keeps DefaultPreemption, which comes after, from running.
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.message)
}

// noRoomSince returns since when the pod is known to find no room on its type.
// The ledger knows unless the scheduler was restarted in between; the pod's
// condition, which has seconds only, then says when it was first unschedulable.
func noRoomSince(c *cycle, pod *corev1.Pod, now time.Time) time.Time {
	if !c.attempt.NoRoomSince.IsZero() || c.attempt.Stage == ledger.StageSample {
		return c.attempt.NoRoomSince
	}
	if c.attempt.Anew {
		return now
	}
	for i := range pod.Status.Conditions {
		cond := &pod.Status.Conditions[i]
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse && cond.Reason == corev1.PodReasonUnschedulable {
			if since := cond.LastTransitionTime.Add(time.Second); since.Before(now) {
				return since
			}
		}
	}
	return now
}

// podsToActivate is the argument that Handle.Activate takes.
func podsToActivate(pods ...*corev1.Pod) map[string]*corev1.Pod {
	m := make(map[string]*corev1.Pod, len(pods))
	for _, p := range pods {
		m[p.Namespace+"/"+p.Name] = p
	}
	return m
}
