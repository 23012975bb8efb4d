// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// reporter records what happens to workloads, as events, metrics and log. It is the only place that does.
type reporter struct{ *Options }

// record records what has come of an action.
func (o *reporter) record(ctx context.Context, w *evaluation, a rebalance.Action, r rebalance.Result) {
	if r.Eviction != "" {
		evictions.WithLabelValues(w.Group.Key.Namespace, w.Mix, r.Eviction).Inc()
	}
	if r.Placeholder != "" {
		placeholders.WithLabelValues(string(r.Placeholder)).Inc()
	}
	o.endings(ctx, w)
	switch a.Step {
	case rebalance.StepEvict, rebalance.StepSurge:
		o.moved(ctx, w, a, r)
	case rebalance.StepFlee:
		o.fled(ctx, w, a, r)
	case rebalance.StepProvision:
		o.provisioned(ctx, w, a, r)
	case rebalance.StepRest:
		o.report(&w.Entry)
	}
}

// moved records that a replica was evicted, or that its eviction was refused.
func (o *reporter) moved(ctx context.Context, w *evaluation, a rebalance.Action, r rebalance.Result) {
	v, node := a.Verdict, a.Proof.Node
	logger := log.FromContext(ctx).WithValues("pod", v.Pod.Name)
	if r.Began != nil {
		o.Workloads.MoveBegan(w.Group.Key.Namespace)
	}
	switch {
	case r.Refused:
		why := rebalance.ObstacleOf(r.Err)
		logger.Info("Eviction refused", "reason", why.Reason, "message", why.Message)
	case r.Unreleasable != "":
		logger.Info("A replica was not released", "error", r.Unreleasable)
	case r.Err == nil && a.Surge:
		logger.Info("Released a replica on the wrong capacity type", "from", v.Pod.Node, "to", v.Target, "provenNode", node,
			"message", v.Message)
		o.event(w.Group.Workload.Reference(), rebalance.ReportOfMove(&a, w.Now), corev1.EventTypeNormal, v1alpha1.EventReasonReleased,
			"Released pod %s on node %s: its replacement fits on %s node %s, and the pod is evicted once that is available",
			v.Pod.Name, v.Pod.Node, v.Target, node)
	case r.Err == nil && a.Move.Requested:
		logger.Info("Requested the eviction of a replica on the wrong capacity type", "from", v.Pod.Node, "to", v.Target, "provenNode", node,
			"message", v.Message)
		o.event(w.Group.Workload.Reference(), rebalance.ReportOfMove(&a, w.Now), corev1.EventTypeNormal, v1alpha1.EventReasonMoved,
			"Requested the eviction of pod %s from node %s: its replacement fits on %s node %s", v.Pod.Name, v.Pod.Node, v.Target, node)
	case r.Err == nil:
		logger.Info("Evicted a replica on the wrong capacity type", "from", v.Pod.Node, "to", v.Target, "provenNode", node,
			"message", v.Message)
		o.event(w.Group.Workload.Reference(), rebalance.ReportOfMove(&a, w.Now), corev1.EventTypeNormal, v1alpha1.EventReasonMoved,
			"Evicted pod %s from node %s: its replacement fits on %s node %s", v.Pod.Name, v.Pod.Node, v.Target, node)
	}
}

// fled records that a replica on a node that departs, or whose eviction is requested, was released, or why it was not.
func (o *reporter) fled(ctx context.Context, w *evaluation, a rebalance.Action, r rebalance.Result) {
	p := a.Verdict.Pod
	logger := log.FromContext(ctx).WithValues("pod", p.Name, "node", p.Node, "why", a.Verdict.Message)
	switch {
	case r.Err != nil && a.Proves: // the verdict about the workload has it
		logger.V(2).Info("A replica that is about to go is not released yet", "error", r.Err.Error())
		return
	case r.Err != nil:
		logger.Info("A replica that is about to go was not released", "error", r.Err.Error())
		return
	case r.Unreleasable != "":
		logger.Info("A replica that is about to go was not released", "error", r.Unreleasable)
		return
	}
	logger.Info("Released a replica that is about to go", "provenNode", r.Node)
	report, next := rebalance.ReportOfMove(&a, w.Now), "the replacement is created at once"
	if report.Node = r.Node; r.Node != "" {
		next = fmt.Sprintf("its replacement fits on %s node %s", a.Verdict.Target, r.Node)
	}
	o.event(w.Group.Workload.Reference(), report, corev1.EventTypeNormal, v1alpha1.EventReasonReleased, "Released pod %s: %s, and %s",
		p.Name, a.Verdict.Message, next)
}

// event records an event about a move. Its annotation has what programs read, its message the same for people.
func (o *reporter) event(of *corev1.ObjectReference, report rebalance.MoveReport, kind, reason, format string, args ...any) {
	o.Recorder.AnnotatedEventf(of, map[string]string{v1alpha1.MoveAnnotation: report.String()}, kind, reason, format, args...)
}

// provisioned records that a placeholder was created, or that there is none.
func (o *reporter) provisioned(ctx context.Context, w *evaluation, a rebalance.Action, r rebalance.Result) {
	v := a.Verdict
	if r.Err != nil {
		if rebalance.ObstacleOf(r.Err).Reason == rebalance.ReasonNoPlaceholder {
			placeholders.WithLabelValues(holderRefused).Inc()
		}
		return
	}
	placeholders.WithLabelValues(holderCreated).Inc()
	log.FromContext(ctx).Info("Created a placeholder", "placeholder", r.Created.Name, "pod", v.Pod.Name, "type", v.Target,
		"message", v.Message)
	if a.Flees {
		o.Recorder.Eventf(w.Group.Workload.Reference(), corev1.EventTypeNormal, v1alpha1.EventReasonProvisioning,
			"Created placeholder %s for the replacement of pod %s: %s", r.Created.Name, v.Pod.Name, v.Message)
		return
	}
	report := rebalance.ReportOfMove(&a, w.Now)
	report.Placeholder = r.Created.Name
	o.event(w.Group.Workload.Reference(), report, corev1.EventTypeNormal, v1alpha1.EventReasonProvisioning,
		"Created placeholder %s: %s. The pod is evicted once the placeholder runs", r.Created.Name, v.Message)
}

// endings records the moves that are over.
func (o *reporter) endings(ctx context.Context, w *evaluation) {
	for _, end := range w.Ended {
		o.ended(ctx, &w.Entry, end)
	}
	w.Ended = nil
}

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
	o.Recorder.AnnotatedEventf(e.Group.Workload.Reference(), map[string]string{v1alpha1.BlockedReasonAnnotation: r.Name},
		corev1.EventTypeNormal, v1alpha1.EventReasonMoveBlocked, "%s: %s", r, e.Verdict.Message)
}

// ended reports a move that is over.
func (o *reporter) ended(ctx context.Context, e *rebalance.Entry, end rebalance.Ending) {
	moves.WithLabelValues(string(end.Outcome)).Inc()
	logger := log.FromContext(ctx).WithValues("pod", end.Move.Name)
	what := ""
	switch end.Outcome {
	case rebalance.Failed:
		what = fmt.Sprintf("Pod %s was %s to move to %s, and its replacement runs on %s", end.Move.Name, wayOf(&end.Move), end.Move.Target,
			end.On)
	case rebalance.TimedOut:
		what = fmt.Sprintf("Pod %s was %s, and %s later %d of %d replicas are available", end.Move.Name, wayOf(&end.Move),
			o.MoveTimeout+e.Group.MinReady, end.Available, end.Want)
	case rebalance.NotProvisioned:
		what = "A placeholder was created, and was not scheduled in time"
	default:
		logger.Info("A move is over", "outcome", string(end.Outcome))
		return
	}
	logger.Info("A move failed", "outcome", string(end.Outcome), "failures", e.Failures, "retryAt", e.RetryAt)
	report := rebalance.ReportOfEnding(&e.Group, &end)
	o.event(e.Group.Workload.Reference(), report, corev1.EventTypeWarning, v1alpha1.EventReasonMoveFailed,
		"%s. Failed moves in a row: %d; the next is tried at %s", what, e.Failures, e.RetryAt.UTC().Format(time.RFC3339))
}

func wayOf(m *rebalance.Move) string {
	switch {
	case m.Released:
		return "released"
	case m.Requested:
		return "requested to go"
	}
	return "evicted"
}

// decided passes a decision on, once every workload was reconciled: a status that is composed before that misses some.
func (c *Controller) decided(d *workloads.Decision) {
	if c.Workloads.Complete() {
		c.Decided(*d)
		return
	}
	if first := c.first[d.Namespace]; first != nil {
		first.Add(d)
	} else {
		c.first[d.Namespace] = d
	}
}

// store stores what a reconcile of a workload has come to, and queues what depends on it. It is the only place that does.
func (c *Controller) store(w *evaluation) {
	e, before := &w.Entry, &w.Before
	key := e.Group.Key
	again := !sameInFlight(&w.Stored, e) || !sameInFlight(before, e)
	if again {
		e.Group.Version = 0 // it was observed as it was before, so the next reconcile of everything must not leave it out
	}
	// What is held back in this reconcile may change the verdict about the other replicas.
	again = again || !maps.EqualFunc(before.Held, e.Held,
		func(a, b rebalance.Hold) bool { return a.Until.Equal(b.Until) && a.Verdict.Reason == b.Verdict.Reason })
	was := contentionIn(c.Workloads, key.Namespace)
	if w.Gone {
		c.Workloads.Delete(key)
		if w.Over {
			c.journal.forget(key)
		}
		e.Moves, e.Placeholders, again = nil, nil, false
	} else {
		c.Workloads.Put(*e)
		c.journal.note(rebalance.RecordOf(e, w.Now))
	}
	if again {
		c.Changed(key)
	}
	if !w.Next.IsZero() {
		c.queue.AddAfter(key, max(w.Next.Sub(c.Clock.Now()), rebalance.HoldChanged))
	}
	c.lacking.note(key, w.lacks)
	c.decided(decisionOf(before, e))
	c.requeueContended(&w.Stored, e, was)
}

// decisionOf names the mixes that have another status after a reconcile of a workload.
func decisionOf(before, after *rebalance.Entry) *workloads.Decision {
	d := &workloads.Decision{Namespace: after.Group.Key.Namespace, Groups: []governing.GroupKey{after.Group.Key}, Mixes: map[string]bool{}}
	names := []string{before.Mix, after.Mix}
	if before.Mix != after.Mix || !slices.Equal(before.Selecting, after.Selecting) {
		names = slices.Concat(names, before.Selecting, after.Selecting)
	}
	for _, n := range names {
		if n != "" {
			d.Mixes[n] = true
		}
	}
	return d
}

// lacking has the workloads with a replica that would move if a type had capacity.
type lacking struct {
	workloads map[governing.GroupKey]map[capacity.Type]uint64
	// versions are those of the capacity of a type when the first of these workloads was decided.
	versions map[capacity.Type]uint64
}

// note replaces the types that a workload lacks, with the versions of their capacity.
func (l *lacking) note(key governing.GroupKey, types map[capacity.Type]uint64) {
	delete(l.workloads, key)
	if types != nil {
		l.workloads[key] = types
	}
	for t, version := range types {
		if _, known := l.versions[t]; !known {
			l.versions[t] = version
		}
	}
}

// requeue queues the workloads that lack a type which may have capacity now. It reports whether there is one.
func (l *lacking) requeue(now func(capacity.Type) uint64, queue workqueue.TypedRateLimitingInterface[governing.GroupKey]) (queued bool) {
	for t, version := range l.versions {
		if now(t) == version {
			continue
		}
		delete(l.versions, t)
		for key, types := range l.workloads {
			if _, lacks := types[t]; lacks {
				queue.Add(key)
				queued = true
			}
		}
	}
	return queued
}

// contention is how much the budget of the cluster is in demand: how many
// replicas are being moved, and whether workloads of a namespace, or of any, wait.
type contention struct {
	inFlight       int
	waitHere, wait bool
}

func contentionIn(store *workloads.Store, namespace string) contention {
	inFlight, here, wait := store.Contention(namespace)
	return contention{inFlight, here > 0, wait > 0}
}

// requeueContended queues the workloads to which it matters that a move of one began or ended: those of the mix; and all
// where the limit of the cluster is, or was, reached, or where namespaces wait for their turn.
func (c *Controller) requeueContended(before, after *rebalance.Entry, was contention) {
	is := contentionIn(c.Workloads, after.Group.Key.Namespace)
	if sameInFlight(before, after) && was.waitHere == is.waitHere {
		return
	}
	namespaces := []string{after.Group.Key.Namespace}
	concerned := func(e *rebalance.Entry) bool { return e.Mix != "" && (e.Mix == after.Mix || e.Mix == before.Mix) }
	if max(was.inFlight, is.inFlight) >= c.ClusterMaxConcurrent || was.wait || is.wait {
		namespaces = c.Workloads.Namespaces()
		concerned = func(*rebalance.Entry) bool { return true }
	}
	for _, n := range namespaces {
		for _, e := range c.Workloads.Unsettled(n) {
			if e.Group.Key != after.Group.Key && concerned(&e) {
				c.queue.Add(e.Group.Key)
			}
		}
	}
}

func sameInFlight(a, b *rebalance.Entry) bool {
	samePlaceholders := slices.EqualFunc(a.Placeholders, b.Placeholders,
		func(x, y rebalance.Placeholder) bool { return x.UID == y.UID && x.Slow == y.Slow })
	return samePlaceholders && slices.Equal(a.Moves, b.Moves) && (b.InFlight() == 0 || a.Mix == b.Mix)
}
