// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/plugins/capacitymix/ledger"
)

// PostFilter moves a pod that found no node to the next stage. It must stand
// before DefaultPreemption: only in the last stage preemption has its turn, so
// nothing is preempted while there is room elsewhere.
func (pl *CapacityMix) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *fwk.Status) {
	c := cycleOf(state)
	if c == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if len(c.finalists) > 0 {
		pl.known[c.wants].refuse(c.finalists)
	}
	logger := klog.FromContext(ctx)
	now := pl.clock.Now()
	f := failure{attempt: c.attempt, wants: c.wants, noRoomSince: noRoomSince(c, pod, now), now: now, nominated: c.nominated}
	f.terminating = c.nominated && pl.preempting(pod)
	if !c.settled && (c.attempt.Stage == ledger.StageType || c.attempt.Stage == ledger.StagePreempt) {
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
		pl.wakeups.set(pod, n.wake, n.wake.Sub(now))
	}
	if n.preempt && pl.keepPreemptionTo(c, statuses) {
		if n.message == "" {
			return nil, fwk.NewStatus(fwk.Unschedulable)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable, n.message)
	}
	// Keeps DefaultPreemption, which comes after, from running.
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, n.message)
}

// keepPreemptionTo keeps preemption to nodes of the slot's type and reports
// whether it could.
//
// A pod that may borrow was tried on both types in one attempt, and it must be
// the last one: only then does the queue know what the nodes of both types were
// refused for, and wakes the pod for either. So the nodes of the other type are
// taken from the candidates here, their reasons kept.
func (pl *CapacityMix) keepPreemptionTo(c *cycle, statuses framework.NodeToStatusReader) bool {
	if c.attempt.Stage != ledger.StageBorrow {
		return true // Filter has refused the others already
	}
	all, ok := statuses.(*framework.NodeToStatus)
	if !ok {
		return false
	}
	all.ForEachExplicitNode(func(name string, status *fwk.Status) {
		if n, _ := pl.ledger.Node(name); n.Type != c.wants && status.Code() == fwk.Unschedulable {
			all.Set(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, status.Reasons()...).WithPlugin(status.Plugin()))
		}
	})
	return true
}

// nominated reports whether preemption in this scheduler makes room for a pod on
// the node that its status names. Others may name a node there too: such a pod
// is tried like every other one.
func (pl *CapacityMix) nominated(pod *corev1.Pod) bool {
	return pod.Status.NominatedNodeName != "" && (!pl.ledger.AttemptOf(pod.UID).HandedAt.IsZero() || pl.preempting(pod))
}

// preempting reports whether pods that can have been preempted for a pod are
// terminating on its nominated node, as DefaultPreemption judges it.
func (pl *CapacityMix) preempting(pod *corev1.Pod) bool {
	node, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(pod.Status.NominatedNodeName)
	if err != nil {
		return false
	}
	priority := corev1helpers.PodPriority(pod)
	return slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool {
		other := p.GetPod()
		return other.DeletionTimestamp != nil && corev1helpers.PodPriority(other) < priority
	})
}

// noRoomSince returns since when the pod is known to find no room on its type.
// The ledger knows unless the scheduler was restarted in between; then the pod's
// condition has it, if this plugin wrote it: a pod can have been unschedulable
// for another reason for long.
func noRoomSince(c *cycle, pod *corev1.Pod, now time.Time) time.Time {
	if !c.attempt.NoRoomSince.IsZero() || c.attempt.Stage == ledger.StageSample {
		return c.attempt.NoRoomSince
	}
	if c.attempt.Anew {
		return now
	}
	for i := range pod.Status.Conditions {
		cond := &pod.Status.Conditions[i]
		if cond.Type != corev1.PodScheduled || cond.Status != corev1.ConditionFalse || cond.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		since, found := noCapacitySince(cond.Message, c.wants)
		if found && since.Before(now) && !since.Before(cond.LastTransitionTime.Time) {
			return since
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
