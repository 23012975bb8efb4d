// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/reservations"
	"berth.dev/berth/plugins/capacitymix/events"
	"berth.dev/berth/plugins/internal/metrics"
)

const (
	// placements bounds how many nodes are looked for in a second, each of which takes as long as a scheduling cycle: so
	// Reservations that no node has capacity for delay pods little, however many there are. burst may come at once.
	placements, burst = 20, 200
	// interval is how often expirations are looked for.
	interval = time.Second
)

// Scheduler is what a Holder uses of the scheduler: no extension point of the framework offers it (docs/extension-points.md). No pod is
// scheduled while one of the methods runs.
type Scheduler interface {
	// Place returns the node that the profile of a pod selects for it. The pod is neither assumed nor bound. The status rejects the
	// pod if no node is feasible or the scheduler has no such profile.
	Place(ctx context.Context, pod *corev1.Pod) (node string, status *fwk.Status)
	// Nodes calls a function with the nodes as they are now.
	Nodes(ctx context.Context, use func(fwk.NodeInfoLister)) error
}

// Holder holds the capacity of Reservations in the process that leads. The scheduler selects their nodes as it does for pods.
type Holder struct {
	scheduler Scheduler
	shared    *shared
	limit     flowcontrol.RateLimiter
	// verified is when what is held was compared with the nodes.
	verified time.Time
}

// reasons are those that the condition Reserved can have: a Reservation that is gone is counted nowhere.
var reasons = []string{
	v1alpha1.ReasonReserved, v1alpha1.ReasonUnschedulable, v1alpha1.ReasonTooMany, v1alpha1.ReasonInvalid, v1alpha1.ReasonUsed,
	v1alpha1.ReasonExpired,
}

// NewHolder returns a Holder. It belongs to the plugin that is created with it.
func NewHolder(scheduler Scheduler) *Holder {
	return &Holder{scheduler: scheduler, limit: flowcontrol.NewTokenBucketRateLimiter(placements, burst)}
}

// Run holds capacity until the context ends. It must be called when the process comes to lead. Where no profile has the
// plugin, it does nothing.
func (h *Holder) Run(ctx context.Context) {
	if h.shared == nil || h.shared.writer == nil || h.shared.Wait(ctx) != nil {
		return
	}
	h.shared.holdings.Lead()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		h.round(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-h.shared.holdings.Changed():
		}
	}
}

// round looks for nodes, writes what has changed and wakes the pods that this concerns.
func (h *Holder) round(ctx context.Context) {
	sh := h.shared
	if err := h.verify(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Compare what Reservations hold with what the pods of their nodes request")
	}
	for h.limit.TryAccept() {
		r := sh.holdings.Next(sh.clock.Now())
		if r == nil {
			break
		}
		node, status := h.scheduler.Place(ctx, r.Pod())
		switch {
		case status.IsSuccess():
			sh.holdings.Hold(r, node, sh.clock.Now())
		case status.IsRejected():
			sh.holdings.NotHeld(r, events.Truncate(status.Message()), sh.clock.Now())
		default:
			klog.FromContext(ctx).Error(status.AsError(), "Hold capacity", "reservation", klog.KObj(r.Object))
			sh.holdings.NotHeld(r, "", sh.clock.Now())
		}
	}
	for _, u := range sh.holdings.Updates(sh.clock.Now()) {
		h.write(ctx, u)
	}
	sh.waiting.wake(sh.holdings.Freed(sh.clock.Now()))
	report(sh.holdings.Totals(sh.clock.Now()))
}

// report sets the metrics of Reservations.
func report(t reservations.Totals) {
	for _, reason := range reasons {
		metrics.Reservations.WithLabelValues(reason).Set(float64(t.Reservations[reason]))
	}
	metrics.ReservationReplicas.WithLabelValues("held").Set(float64(t.Held))
	metrics.ReservationReplicas.WithLabelValues("used").Set(float64(t.Used))
	metrics.ReservationReplicas.WithLabelValues("missing").Set(float64(t.Missing))
}

// verify releases what is held on nodes where it is not there any more.
func (h *Holder) verify(ctx context.Context) error {
	now := h.shared.clock.Now()
	if now.Sub(h.verified) < interval || h.shared.holdings.View(now).Empty() {
		return nil
	}
	h.verified = now
	return h.scheduler.Nodes(ctx, func(nodes fwk.NodeInfoLister) {
		h.shared.holdings.Verify(func(name string) fwk.NodeInfo {
			if node, err := nodes.Get(name); err == nil {
				return node
			}
			return nil
		}, now)
	})
}

// write writes a status or deletes a Reservation, and records an event if its condition has another reason. Conflicts are
// written again after the watch has delivered what changed.
func (h *Holder) write(ctx context.Context, u reservations.Update) {
	logger := klog.FromContext(ctx)
	if u.Delete {
		if err := h.shared.writer.remove(ctx, u.Object); err != nil {
			logger.Error(err, "Delete a finished Reservation", "reservation", klog.KObj(u.Object))
		}
		return
	}
	for _, cause := range u.Released {
		h.event(u.Object, corev1.EventTypeWarning, v1alpha1.ReasonReleased, cause)
	}
	written, err := h.shared.writer.status(ctx, u.Object)
	if err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			logger.Error(err, "Write the status of a Reservation", "reservation", klog.KObj(u.Object))
		}
		return
	}
	h.shared.holdings.Written(written)
	if u.Reason == "" {
		return
	}
	c := meta.FindStatusCondition(written.Status.Conditions, v1alpha1.ConditionReserved)
	kind := corev1.EventTypeNormal
	if u.Reason == v1alpha1.ReasonUnschedulable || u.Reason == v1alpha1.ReasonInvalid || u.Reason == v1alpha1.ReasonTooMany {
		kind = corev1.EventTypeWarning
	}
	h.event(written, kind, u.Reason, c.Message)
}

func (h *Holder) event(r *v1alpha1.Reservation, kind, reason, message string) {
	of := r.DeepCopy()
	of.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Reservation"))
	h.shared.recorder.Eventf(of, nil, kind, reason, "Reserving", "%s", events.Truncate(message))
}
