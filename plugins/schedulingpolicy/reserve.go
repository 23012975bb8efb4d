// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
)

// Reserve tells the strategy which node was selected, also where only one was feasible and none was scored.
func (pl *SchedulingPolicy) Reserve(_ context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := read(cycleState)
	if c == nil {
		return nil
	}
	c.governor.chooser.Selected(nodeName)
	c.reserved = pl.clock.Now()
	if g := c.governor; g.keeps(decision.Reserved) || g.rules.Events {
		c.record = pl.begin(g, pod)
		placed(c.record, c, nodeName)
		c.record.Outcome = decision.Reserved
		pl.keep(g, c.record)
	}
	return nil
}

// Unreserve leaves the attempt to the handler of failures, which knows why it failed. It can be called twice, and without
// Reserve.
func (pl *SchedulingPolicy) Unreserve(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) {
	c := read(cycleState)
	if c == nil {
		return
	}
	c.release()
	pl.leave(ctx, c, pod)
	if !c.governor.keeps(decision.BindFailed) && !c.governor.rules.Events {
		return
	}
	if c.record == nil {
		c.record = pl.begin(c.governor, pod)
		placed(c.record, c, nodeName)
	}
	pl.recorder.unreserved(pod.UID, c.record)
}

// PostBind records that the pod is bound.
func (pl *SchedulingPolicy) PostBind(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) {
	c := read(cycleState)
	if c == nil {
		return
	}
	c.release()
	pl.boundWithGroup(ctx, c, pod)
	pl.recorder.forget(pod.UID)
	if c.record == nil {
		return
	}
	bound := *c.record
	bound.Outcome = decision.Bound
	pl.keep(c.governor, &bound)
	if c.governor.rules.Events {
		pl.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, v1alpha1.EventReasonBindSuccess, "Binding",
			"Decision %s: bound to node %s", bound.ID, nodeName)
	}
}

// keep puts a record into the store, if the rules keep its outcome.
func (sh *shared) keep(g *governor, r *decision.Record) {
	if g.keeps(r.Outcome) {
		sh.recorder.keep(g.rules, r)
	}
}
