// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

const (
	// snapshotAge is how old a snapshot may be that proves room.
	snapshotAge = 5 * time.Second
	// holdNoRoom is how long a replica is left alone for which the filters found
	// no room; holdRefused one whose eviction the API server refused.
	holdNoRoom  = time.Minute
	holdRefused = 30 * time.Second
)

// Reasons of holds that internal/mix/rebalance does not know: they come of I/O.
const (
	// ReasonUnproven: whether there is room could not be found out.
	ReasonUnproven rebalance.Reason = "RoomUnproven"
	// ReasonChanged: the pod has changed since it was decided about.
	ReasonChanged rebalance.Reason = "PodChanged"
	// ReasonRefused: the API server refused the eviction for a reason of its own.
	ReasonRefused rebalance.Reason = "EvictionRefused"
)

// hold leaves a replica alone for a while.
func (p *pass) hold(v rebalance.Verdict, r rebalance.Reason, d time.Duration, format string, args ...any) *workloads.Hold {
	v.Reason, v.Message = r, fmt.Sprintf(format, args...)
	v.RetryAt = p.now.Add(d)
	return &workloads.Hold{Verdict: v, Until: v.RetryAt}
}

// prove asks the scheduler's own filters whether the replacement of a replica
// fits on a node of the type that it will want, once some pods are gone in addition.
// It returns the node, or a hold.
func (p *pass) prove(ctx context.Context, e *workloads.Entry, v rebalance.Verdict, besides ...types.UID) (node string, hold *workloads.Hold) {
	began := p.Clock.Now()
	defer func() { replaySeconds.Observe(p.Clock.Since(began).Seconds()) }()
	pod, err := p.readPod(ctx, v.Pod)
	switch {
	case apierrors.IsNotFound(err) || err == nil && !unchanged(pod, v):
		return "", p.hold(v, ReasonChanged, debounce, "pod %s has changed", v.Pod.Name)
	case err != nil:
		return "", p.hold(v, ReasonUnproven, holdRefused, "read pod %s: %v", v.Pod.Name, err)
	}
	if err := p.takeSnapshot(ctx); err != nil {
		p.noteOutage(err)
		return "", p.hold(v, ReasonUnproven, holdRefused, "%v", err)
	}
	answer, err := p.snapshot.Fits(ctx, simulation.Question{
		Pod: pod, Gone: slices.Concat(p.gone(e), besides, []types.UID{pod.UID}), Nodes: p.nodesOf(v.Target), Wants: v.Target, Tolerations: e.Group.Policy.Tolerations[v.Target],
	})
	if err != nil {
		return "", p.hold(v, ReasonUnproven, holdRefused, "%v", err)
	}
	if !answer.Fits {
		return "", p.hold(v, rebalance.ReasonNoRoom, holdNoRoom, "no %s node has room for the replacement of pod %s: %s", v.Target, v.Pod.Name, answer.Message())
	}
	if hold := p.creatable(ctx, v, pod); hold != nil {
		return "", hold
	}
	return answer.Node, nil
}

// creatable returns a hold if the API server would not admit the replacement of a pod.
func (p *pass) creatable(ctx context.Context, v rebalance.Verdict, pod *corev1.Pod) *workloads.Hold {
	var quotas *corev1.ResourceQuotaList
	var ranges *corev1.LimitRangeList
	core, all := p.Client.CoreV1(), metav1.ListOptions{Limit: pageSize}
	err := p.bounded(ctx, func(ctx context.Context) (err error) {
		if quotas, err = core.ResourceQuotas(pod.Namespace).List(ctx, all); err != nil {
			return err
		}
		ranges, err = core.LimitRanges(pod.Namespace).List(ctx, all)
		return err
	})
	if err != nil {
		return p.hold(v, ReasonUnproven, holdRefused, "read the quotas and limit ranges of the namespace: %v", err)
	}
	if ok, reason, message := rebalance.Creatable(pod, quotas.Items, ranges.Items); !ok {
		return p.hold(v, reason, holdRefused, "%s", message)
	}
	return nil
}

// takeSnapshot makes sure that there is a snapshot, and a new one.
func (p *pass) takeSnapshot(ctx context.Context) error {
	if p.snapshot != nil && p.Clock.Since(p.taken) < snapshotAge {
		return nil
	}
	p.close()
	p.taken = p.Clock.Now()
	snapshot, err := p.take(ctx)
	if err != nil {
		return fmt.Errorf("find out about room: %w", err)
	}
	p.snapshot = snapshot
	return nil
}

// nodesOf accepts the nodes of a type that take pods, as the scheduler does.
func (p *pass) nodesOf(t capacity.Type) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		found, _ := p.State.Classifier.Classify(n)
		_, departing := capacity.Departing(n)
		return found == t && !departing
	}
}

// gone are the pods that a snapshot may still show.
func (p *pass) gone(e *workloads.Entry) (uids []types.UID) {
	for _, m := range e.Moves {
		uids = append(uids, m.UID)
	}
	return slices.AppendSeq(uids, maps.Keys(p.released))
}

// unchanged reports whether a pod is still what was decided about.
func unchanged(pod *corev1.Pod, v rebalance.Verdict) bool {
	return pod.UID == v.Pod.UID && pod.DeletionTimestamp == nil && pod.Spec.NodeName == v.Pod.Node
}

// evict moves a replica, if the decision still stands by what the API server has now. It returns nil if it is on its way,
// else a hold.
func (p *pass) evict(ctx context.Context, e *workloads.Entry, v rebalance.Verdict, node string, again func() rebalance.Verdict) *workloads.Hold {
	logger := log.FromContext(ctx).WithValues("pod", v.Pod.Name)
	m := workloads.Move{UID: v.Pod.UID, Namespace: v.Pod.Namespace, Name: v.Pod.Name, Started: p.Clock.Now(), Wrong: len(e.Group.WrongSide())}
	if hold := p.recordMove(ctx, e, v, m); hold != nil {
		return hold
	}
	pod, hold := p.confirm(ctx, e, v, again)
	if hold != nil {
		p.count(e, resultChanged)
		return hold
	}
	// The client waits and asks again where the server says when; the next look does that as well.
	err := p.bounded(ctx, func(ctx context.Context) error {
		return p.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}},
		})
	})
	if hold := p.refusal(e, v, err); hold != nil {
		logger.Info("Eviction refused", "reason", hold.Verdict.Reason, "message", hold.Verdict.Message)
		if unanswered(err) {
			m.DoubtUntil = p.Clock.Now().Add(unseen)
			p.begin(e, m)
		}
		return hold
	}
	p.count(e, resultEvicted)
	p.begin(e, m)
	p.snapshot.Assume(pod, node)
	logger.Info("Evicted a replica on the wrong capacity type", "from", pod.Spec.NodeName, "to", v.Target, "room", node, "message", v.Message)
	p.Recorder.Eventf(workloadRef(e.Group.Workload), corev1.EventTypeNormal, v1alpha1.EventReasonMoved,
		"Evicted pod %s from node %s: its replacement fits on %s node %s", pod.Name, pod.Spec.NodeName, v.Target, node)
	return nil
}

// begin notes that a replica is being moved.
func (p *pass) begin(e *workloads.Entry, m workloads.Move) {
	if e.Had == 0 {
		e.Had = len(e.Group.Seats)
	}
	p.Workloads.MoveBegan(e.Group.Key.Namespace)
	e.Moves = append(slices.Clone(e.Moves), m)
	e.Group = e.Group.Going(moved(e.Moves))
}

// refusal turns the API server's answer into a hold; nil means that it agreed.
func (p *pass) refusal(e *workloads.Entry, v rebalance.Verdict, err error) *workloads.Hold {
	switch {
	case err == nil:
		return nil
	case apierrors.IsTooManyRequests(err):
		p.count(e, resultBudget)
		return p.hold(v, rebalance.ReasonPDB, holdRefused, "the eviction of pod %s was refused: %v", v.Pod.Name, err)
	case apierrors.IsInternalError(err):
		// The API server's answer where more than one PodDisruptionBudget selects the pod.
		p.count(e, resultOverlapping)
		return p.hold(v, rebalance.ReasonOverlappingPDBs, holdRefused, "the eviction of pod %s was refused: %v", v.Pod.Name, err)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		p.count(e, resultChanged)
		return p.hold(v, ReasonChanged, debounce, "pod %s has changed", v.Pod.Name)
	}
	p.count(e, resultError)
	return p.hold(v, ReasonRefused, holdRefused, "the eviction of pod %s failed: %v", v.Pod.Name, err)
}

// ended tells about a move that is over.
func (p *pass) ended(ctx context.Context, e *workloads.Entry, end ending) {
	moves.WithLabelValues(string(end.outcome)).Inc()
	logger := log.FromContext(ctx).WithValues("pod", end.move.Name)
	what := ""
	switch end.outcome {
	case failed:
		what = fmt.Sprintf("Pod %s was evicted, all replicas are Ready again, and as many as before run on the wrong capacity type", end.move.Name)
	case timedOut:
		what = fmt.Sprintf("Pod %s was evicted, and %s later %d of %d replicas are Ready", end.move.Name, p.MoveTimeout, end.ready, end.want)
	case notProvisioned:
		what = "A placeholder was created, and did not come to hold the room for a move"
	default:
		logger.Info("A move is over", "outcome", string(end.outcome))
		return
	}
	logger.Info("A move failed", "outcome", string(end.outcome), "failures", e.Failures, "retryAt", e.RetryAt)
	p.Recorder.Eventf(workloadRef(e.Group.Workload), corev1.EventTypeWarning, v1alpha1.EventReasonMoveFailed,
		"%s. Failed moves in a row: %d; the next is tried at %s", what, e.Failures, e.RetryAt.UTC().Format(time.RFC3339))
}

// quietReasons pass by themselves within moments, or are how it should be: no
// event is worth their while.
var quietReasons = []rebalance.Reason{
	rebalance.ReasonOnTarget, rebalance.ReasonMove, rebalance.ReasonStabilizing, rebalance.ReasonMixBudget, rebalance.ReasonClusterBudget,
	rebalance.ReasonStartupGrace, rebalance.ReasonRollingOut, rebalance.ReasonOff, rebalance.ReasonProvisioning, rebalance.ReasonStaleView, ReasonChanged,
}

// report records an event when what blocks a workload has changed.
func (p *pass) report(e *workloads.Entry) {
	r := e.Verdict.Reason
	if r == e.Reported {
		return
	}
	if slices.Contains(quietReasons, r) {
		if r == rebalance.ReasonOnTarget {
			e.Reported = r
		}
		return
	}
	e.Reported = r
	p.Recorder.Eventf(workloadRef(e.Group.Workload), corev1.EventTypeNormal, v1alpha1.EventReasonMoveBlocked, "%s: %s", r, e.Verdict.Message)
}
