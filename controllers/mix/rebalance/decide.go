// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// holdInsufficientCapacity is how long a replica is held back for which the filters found no capacity, holdRefused one whose eviction
	// the API server refused, holdChanged one that has changed since the watch showed it.
	holdInsufficientCapacity = time.Minute
	holdRefused              = 30 * time.Second
	holdChanged              = 200 * time.Millisecond
)

// decide moves what may be moved, one replica after the other, and leaves the verdict about the workload.
func (c *Controller) decide(ctx context.Context, w *evaluation) {
	for _, end := range w.ended {
		c.out.ended(ctx, &w.Entry, end)
	}
	if w.invalid != nil {
		c.decideNothing(ctx, w)
	} else {
		c.nextSteps(ctx, w)
		for c.decideNext(ctx, w) {
		}
		c.explain(w)
	}
	c.out.report(&w.Entry)
	w.dueAt(w.Due(w.now, c.MoveTimeout))
}

// decideNothing is for a workload whose settings cannot be read. Where nothing has to move, nothing is blocked.
func (c *Controller) decideNothing(ctx context.Context, w *evaluation) {
	w.Verdict = rebalance.Verdict{Reason: rebalance.ReasonInvalidWindow, Message: w.invalid.Error()}
	if w.WrongSince.IsZero() {
		w.Verdict = rebalance.Verdict{Reason: rebalance.ReasonOnTarget}
	}
	for _, h := range w.Placeholders {
		c.end(ctx, w, h, holderDropped)
	}
}

// decideNext decides about the next replica, and reports whether there may be another one.
func (c *Controller) decideNext(ctx context.Context, w *evaluation) (more bool) {
	in := c.input(w)
	v := rebalance.Choose(in)
	if v.Reason != rebalance.ReasonMove {
		if lacking, ok := rebalance.Provision(in); ok {
			c.provision(ctx, w, lacking)
			return true
		}
		w.Verdict = v
		return false
	}
	node, hold := c.proof.prove(ctx, w, v)
	switch effect := in.Effect(v); {
	case hold != nil:
	case effect.Reason == rebalance.ReasonMove:
		hold = c.evict(ctx, w, v, node, func() rebalance.Verdict { return c.input(w).Of(v.Pod.UID) })
	default:
		// It holds for a while: capacity is not proven again and again for a move that is not made.
		hold = &rebalance.Hold{Verdict: effect, Until: w.now.Add(holdInsufficientCapacity)}
	}
	w.HoldBack(hold)
	return true
}

// input is all that a decision about a workload depends on. The time, the grace and the storms are those of this moment: a
// proof of capacity may take long.
func (c *Controller) input(w *evaluation) *rebalance.Input {
	b := c.Workloads.Budgets(&w.Entry)
	in := &rebalance.Input{
		Cluster: c.clusterNow(), Settings: w.Settings, Group: w.Group, Budgets: w.budgets,
		MayFit: func(t capacity.Type, pod *clusterstate.Pod) bool { return c.mayFit(w, t, pod) },
		History: rebalance.History{
			WrongSince: w.WrongSince, RollingSince: w.RollingSince, InFlight: b.Mix,
			Failures: w.Failures, RetryAt: w.RetryAt, Refused: w.Refusal.Reason, Refusal: w.Refusal.Message, Had: w.Had,
			Moving: len(w.Moves),
		},
		Skip: map[string]rebalance.Verdict{},
	}
	in.Cluster.InFlight, in.Cluster.Reserved = b.InFlight, b.Reserved
	for uid, h := range w.Held {
		if h.Verdict.Reason == rebalance.ReasonReport && w.Settings.Mode != rebalance.Report {
			continue // it was held back only to report, and is not any more
		}
		in.Skip[uid] = h.Verdict
	}
	for _, h := range w.Placeholders {
		in.Skip[string(h.Replica)] = rebalance.Verdict{
			Reason: rebalance.ReasonProvisioning, Target: h.Target,
			Message: fmt.Sprintf("placeholder %s requests %s capacity for the replacement of pod %s", h.Name, h.Target, h.ReplicaName),
		}
	}
	return in
}

// mayFit is that of the cluster state. The types without capacity are kept with the evaluation: once they may have some, the
// workload is reconciled again.
func (c *Controller) mayFit(w *evaluation, t capacity.Type, pod *clusterstate.Pod) bool {
	version := c.State.CapacityVersion(t) // what comes after it counts
	if c.State.MayFit(t, pod) {
		return true
	}
	if w.lacks == nil {
		w.lacks = map[capacity.Type]uint64{}
	}
	if _, known := w.lacks[t]; !known {
		w.lacks[t] = version
	}
	return false
}

// hold is a verdict that holds for a while.
func (w *evaluation) hold(v rebalance.Verdict, r *rebalance.Reason, d time.Duration, format string, args ...any) *rebalance.Hold {
	v.Reason, v.Message = r, fmt.Sprintf(format, args...)
	v.RetryAt = w.now.Add(d)
	return &rebalance.Hold{Verdict: v, Until: v.RetryAt}
}

// changed holds a replica that is not what was decided about.
func (w *evaluation) changed(v rebalance.Verdict) *rebalance.Hold {
	return w.hold(v, rebalance.ReasonChanged, holdChanged, "pod %s has changed", v.Pod.Name)
}

func (w *evaluation) dueAt(at time.Time) {
	if !at.IsZero() && (w.next.IsZero() || at.Before(w.next)) {
		w.next = at
	}
}

// reporter records what happens to workloads, as events, metrics and log.
type reporter struct{ *Options }

// report records an event when what blocks a workload has changed.
func (o *reporter) report(e *rebalance.Entry) {
	r := e.Verdict.Reason
	if r == e.Reported {
		return
	}
	if r.Quiet {
		if r == rebalance.ReasonOnTarget {
			e.Reported = r
		}
		return
	}
	e.Reported = r
	o.Recorder.Eventf(e.Group.Workload.Reference(), corev1.EventTypeNormal, v1alpha1.EventReasonMoveBlocked, "%s: %s", r, e.Verdict.Message)
}

// ended reports a move that is over.
func (o *reporter) ended(ctx context.Context, e *rebalance.Entry, end rebalance.Ending) {
	moves.WithLabelValues(string(end.Outcome)).Inc()
	logger := log.FromContext(ctx).WithValues("pod", end.Move.Name)
	what := ""
	switch end.Outcome {
	case rebalance.Failed:
		what = fmt.Sprintf("Pod %s was evicted to move to %s, and its replacement runs on %s", end.Move.Name, end.Move.Target, end.On)
	case rebalance.TimedOut:
		what = fmt.Sprintf("Pod %s was evicted, and %s later %d of %d replicas are available", end.Move.Name,
			o.MoveTimeout+e.Group.MinReady, end.Available, end.Want)
	case rebalance.NotProvisioned:
		what = "A placeholder was created, and was not scheduled in time"
	default:
		logger.Info("A move is over", "outcome", string(end.Outcome))
		return
	}
	logger.Info("A move failed", "outcome", string(end.Outcome), "failures", e.Failures, "retryAt", e.RetryAt)
	o.Recorder.Eventf(e.Group.Workload.Reference(), corev1.EventTypeWarning, v1alpha1.EventReasonMoveFailed,
		"%s. Failed moves in a row: %d; the next is tried at %s", what, e.Failures, e.RetryAt.UTC().Format(time.RFC3339))
}
