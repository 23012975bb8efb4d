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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// snapshotAge is how old a snapshot may be that capacity is proven by.
const snapshotAge = 5 * time.Second

// prover proves that the replacement of a replica is admitted, follows the mix, and finds capacity.
type prover struct {
	*Options
	api *calls
	// owners is nil in tests of decisions: then a replica is its own replacement.
	owners *owners
	// take takes a snapshot to prove capacity by. snapshot is the last one, of the time taken; nil if there is none.
	take     func(context.Context) (snapshot, error)
	snapshot snapshot
	taken    time.Time
	// released is the map of holders: a snapshot may still show these placeholders.
	released map[types.UID]time.Time
}

// snapshot answers where pods fit; internal/mix/simulation has the real ones.
type snapshot interface {
	Fits(context.Context, simulation.Question) (simulation.Answer, error)
	Assume(pod *corev1.Pod, node string)
	Domains(q simulation.Question, own simulation.Holder, others []simulation.Holder) simulation.Domains
	Close()
}

// prove runs the scheduler's own filters: does the replacement of a replica fit on a node of the type that its slot will have,
// once some other pods are gone, too? It returns the node, or a hold.
func (p *prover) prove(ctx context.Context, w *evaluation, v rebalance.Verdict,
	others ...types.UID,
) (node string, hold *rebalance.Hold) {
	began := p.Clock.Now()
	defer func() { replaySeconds.Observe(p.Clock.Since(began).Seconds()) }()
	pod, hold := p.api.replica(ctx, w, v)
	if hold != nil {
		return "", hold
	}
	next, hold := p.successor(ctx, w, v, pod)
	if hold != nil {
		return "", hold
	}
	if err := p.takeSnapshot(ctx); err != nil {
		return "", w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "%v", err)
	}
	answer, err := p.snapshot.Fits(ctx, simulation.Question{
		Pod: pod, Next: next.admitted, Gone: slices.Concat(p.evicted(w), others,
			[]types.UID{pod.UID}), Nodes: p.nodesOf(v.Target), Wants: v.Target, Tolerations: w.Group.Governing.Tolerations[v.Target],
	})
	if err != nil {
		if unanswered(err) {
			p.api.noteOutage(ctx, err)
		}
		return "", w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "%v", err)
	}
	if !answer.Fits {
		return "", w.hold(v, rebalance.ReasonInsufficientCapacity, holdInsufficientCapacity,
			"no %s node has free capacity for the replacement of pod %s%s: %s", v.Target, v.Pod.Name, next.origin(), answer.Message())
	}
	w.proven = next
	return answer.Node, nil
}

// closeSnapshot drops the snapshot, if there is one.
func (p *prover) closeSnapshot() {
	if p.snapshot != nil {
		p.snapshot.Close()
		p.snapshot = nil
	}
}

// takeSnapshot makes sure that there is a snapshot, and that it is recent.
func (p *prover) takeSnapshot(ctx context.Context) error {
	if p.snapshot != nil && p.Clock.Since(p.taken) < snapshotAge {
		return nil
	}
	p.closeSnapshot()
	p.taken = p.Clock.Now()
	snapshot, err := p.take(ctx)
	if err != nil {
		p.api.noteOutage(ctx, err)
		return fmt.Errorf("prove that there is capacity: %w", err)
	}
	p.snapshot = snapshot
	return nil
}

// nodesOf accepts the nodes of a type that take pods, as the scheduler does.
func (p *prover) nodesOf(t capacity.Type) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		found, _ := p.State.Classifier.Classify(n)
		_, departing := capacity.Departing(n)
		return found == t && !departing
	}
}

// evicted are the pods that are gone, and that a snapshot may still show.
func (p *prover) evicted(w *evaluation) (uids []types.UID) {
	for _, m := range w.Moves {
		uids = append(uids, m.UID)
	}
	return slices.AppendSeq(uids, maps.Keys(p.released))
}

// evict moves a replica, if the decision is still the same with what the API server has now. It returns nil if the API
// server agreed, else a hold.
func (c *Controller) evict(ctx context.Context, w *evaluation, v rebalance.Verdict, node string,
	again func() rebalance.Verdict,
) *rebalance.Hold {
	logger := log.FromContext(ctx).WithValues("pod", v.Pod.Name)
	m := rebalance.NewMove(&w.Group, v, c.Clock.Now())
	if hold := c.journal.recordMove(ctx, w, v, m); hold != nil {
		return hold
	}
	pod, hold := c.confirm(ctx, w, v, again)
	if hold != nil {
		w.count(resultChanged)
		return hold
	}
	// The client retries where the server answers when to; the next reconcile does that as well.
	err := c.api.write(ctx, func(ctx context.Context) error {
		return c.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
				UID:             &pod.UID,
				ResourceVersion: &pod.ResourceVersion,
			}},
		})
	})
	if hold := w.refusal(v, err); hold != nil {
		logger.Info("Eviction refused", "reason", hold.Verdict.Reason, "message", hold.Verdict.Message)
		w.Refuse(hold, w.budgets, w.now, c.limits())
		if unanswered(err) {
			m.DoubtUntil = c.Clock.Now().Add(rebalance.Unseen)
			c.moveBegan(w, m)
		}
		return hold
	}
	w.count(resultEvicted)
	w.budgets = rebalance.Spend(w.budgets, v.Pod.Labels, v.Pod.Ready)
	w.Refusal = rebalance.Refusal{}
	c.moveBegan(w, m)
	c.proof.snapshot.Assume(w.proven.admitted, node)
	logger.Info("Evicted a replica on the wrong capacity type", "from", pod.Spec.NodeName, "to", v.Target, "provenNode", node,
		"message", v.Message)
	c.Recorder.Eventf(w.Group.Workload.Reference(), corev1.EventTypeNormal, v1alpha1.EventReasonMoved,
		"Evicted pod %s from node %s: its replacement fits on %s node %s", pod.Name, pod.Spec.NodeName, v.Target, node)
	return nil
}

// moveBegan notes that a replica is being moved.
func (c *Controller) moveBegan(w *evaluation, m rebalance.Move) {
	if w.Had == 0 {
		w.Had = len(w.Group.Assignments)
	}
	c.Workloads.MoveBegan(w.Group.Key.Namespace)
	w.Moves = append(slices.Clone(w.Moves), m)
	w.Group = w.Group.Going(rebalance.Moved(w.Moves))
}

// confirm decides again right before the eviction: with the pods and the mix of the workload that the API server has now, and
// with the grace, the storms and the budgets of this moment, since the proof of capacity may have taken long. It returns the
// replica as it is now, or a hold.
func (c *Controller) confirm(ctx context.Context, w *evaluation, v rebalance.Verdict,
	again func() rebalance.Verdict,
) (*corev1.Pod, *rebalance.Hold) {
	if hold := c.checkScale(ctx, w, v); hold != nil {
		return nil, hold
	}
	live, err := c.api.livePods(ctx, &w.Group)
	if err != nil {
		return nil, w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "read the pods of the workload: %v", err)
	}
	if what := rebalance.Differs(&w.Group, rebalance.Moved(w.Moves), live); what != "" {
		return nil, w.hold(v, rebalance.ReasonStaleView, holdChanged, "%s, which the watch has not shown yet", what)
	}
	if now := again(); now.Reason != rebalance.ReasonMove {
		hold := w.hold(v, now.Reason, holdChanged, "%s", now.Message)
		if now.RetryAt.After(hold.Until) {
			hold.Until, hold.Verdict.RetryAt = now.RetryAt, now.RetryAt
		}
		return nil, hold
	}
	pod := find(live, v.Pod.UID)
	if pod == nil || !unchanged(pod, v) {
		return nil, w.changed(v)
	}
	if hold := c.proof.recreated(ctx, w, v, pod); hold != nil {
		return nil, hold
	}
	return pod, c.api.checkMix(ctx, w, v, pod)
}

func find(pods []corev1.Pod, uid types.UID) *corev1.Pod {
	for i := range pods {
		if pods[i].UID == uid {
			return &pods[i]
		}
	}
	return nil
}
