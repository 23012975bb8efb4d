// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/plugins/internal/metrics"
)

// Reserve passes the selected node to the strategy, also where only one was feasible and none was scored.
func (pl *SchedulingPolicy) Reserve(_ context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c := read(cycleState)
	if c == nil {
		return nil
	}
	c.governor.chooser.Selected(nodeName)
	c.reserved = pl.clock.Now()
	if g := c.governor; g.keeps(decision.Reserved) || g.rules.Events {
		c.record = pl.begin(g, pod, c.began)
		placed(c.record, c, pod, nodeName)
		c.record.Outcome = decision.Reserved
		pl.keep(g, c.record)
	}
	return nil
}

// Unreserve leaves the attempt to the Recorder, which gets the reason of the failure. It can be called twice, and without
// Reserve.
func (pl *SchedulingPolicy) Unreserve(ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeName string) {
	c := read(cycleState)
	if c == nil {
		return
	}
	c.release()
	if c.record == nil && (c.governor.keeps(decision.BindFailed) || c.governor.rules.Events) {
		c.record = pl.begin(c.governor, pod, c.began)
		placed(c.record, c, pod, nodeName)
		c.record.Reservation = c.reservation
	}
	pl.recorder.unreserved(&unbound{pod: pod.UID, governor: c.governor, record: c.record})
	pl.leave(ctx, c, pod)
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
	metrics.PolicyAttempts.WithLabelValues(string(decision.Bound)).Inc()
	if c.record == nil {
		return
	}
	bound := *c.record
	bound.Outcome = decision.Bound
	pl.keep(c.governor, &bound)
	if c.governor.rules.Events {
		pl.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeNormal, v1alpha1.EventReasonBindSuccess, "Binding",
			"Decision %s: bound to node %s%s", bound.ID, nodeName, withReservation(&bound))
	}
}

// keep puts a record into the store, if the rules keep its outcome.
func (sh *shared) keep(g *governor, r *decision.Record) {
	if g.keeps(r.Outcome) {
		sh.recorder.keep(g.rules, r)
	}
}
