// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// unitTimeout bounds the time in which the replacements of a unit are admitted, but for that of the last one.
const unitTimeout = 2 * callTimeout

// proveUnit is prove for a unit that moves as a whole: all replacements fit at the same time, once all of its pods are gone. The proof
// is that of the pod which is evicted, with those of the others.
func (p *prover) proveUnit(ctx context.Context, a *rebalance.Action, members []*clusterstate.Pod) (proof rebalance.Proof, err error) {
	v, began := &a.Verdict, p.Clock.Now()
	gone := p.evicted(&a.Of)
	for _, m := range members {
		gone = append(gone, m.UID)
	}
	bounds, err := p.api.bounds(ctx, a.Of.Group.Key.Namespace)
	if err != nil {
		return proof, err
	}
	var others []rebalance.Placed
	pods := make([]*corev1.Pod, 0, len(members))
	admitted := make([]*corev1.Pod, 0, len(members))
	for i, m := range members {
		if p.Clock.Since(began) > unitTimeout { // a webhook of a tenant may hold each of its pods, and other workloads wait
			return proof, rebalance.ReasonCapacityUnproven.Obstacle(rebalance.HoldRefused,
				"the API server admitted the replacements of %d of %d pods of unit %s within %s", i, len(members), a.Move.Unit, unitTimeout)
		}
		pod, err := p.api.replica(ctx, m)
		if err != nil {
			return proof, err
		}
		next, err := p.successor(ctx, a, pod, &bounds)
		if err != nil {
			return proof, err
		}
		bounds.Replace(next.Admitted, pod)
		if len(next.Admitted.Spec.ResourceClaims) > 0 { // the devices of one are not counted for the next
			return proof, rebalance.ReasonInsufficientCapacity.Obstacle(rebalance.HoldInsufficientCapacity,
				"pod %s has claims of devices, and no capacity can be proven for all %d pods of unit %s", m.Name, len(members), a.Move.Unit)
		}
		if m.UID == v.Pod.UID {
			proof = next
		} else {
			others = append(others, rebalance.Placed{Of: m.UID, Created: next.Created, Admitted: next.Admitted})
		}
		pods, admitted = append(pods, pod), append(admitted, next.Admitted)
	}
	proof.Others = others
	if err := p.takeSnapshot(ctx); err != nil {
		return proof, err
	}
	questions := make([]simulation.Question, len(pods))
	for i, pod := range pods {
		questions[i] = p.question(a, pod, admitted[i], gone)
	}
	return proof, p.fitAll(ctx, a, &proof, members, questions)
}

// question is whether the replacement of a pod fits, once there is a snapshot. next is the replacement, nil for one like the pod.
func (p *prover) question(a *rebalance.Action, pod, next *corev1.Pod, gone []types.UID) simulation.Question {
	t, mix := a.Verdict.Target, a.Of.Group.Governing
	q := simulation.Question{
		Pod: pod, Next: next, Gone: gone, Nodes: p.State.Classifier.Staying(t), Wants: t, Tolerations: mix.Tolerations[t],
		Confined: simulation.ConfinedBy(&a.Of.Group),
	}
	if mix.AvoidInterrupted && t == capacity.Spot && (mix.BorrowOnDemand || !gate.Made(q.Pod)) {
		q.Quarantine = p.quarantine
	}
	return q
}

// fitAll adds the nodes to a proof, or returns an obstacle.
func (p *prover) fitAll(
	ctx context.Context, a *rebalance.Action, proof *rebalance.Proof, members []*clusterstate.Pod, questions []simulation.Question,
) error {
	answers, err := p.snapshot.FitAll(ctx, questions)
	if unanswered(err) {
		p.api.noteOutage(ctx, err)
	}
	if err != nil {
		return err
	}
	for i, answer := range answers {
		m := members[i]
		if !answer.Fits {
			return rebalance.ReasonInsufficientCapacity.Obstacle(rebalance.HoldInsufficientCapacity,
				"no %s node has free capacity for the replacement of pod %s beside %s of unit %s: %s", a.Verdict.Target, m.Name,
				display.Count(i, "other"), a.Move.Unit, answer.Message())
		}
		if m.UID == a.Verdict.Pod.UID {
			proof.Node = answer.Node
			continue
		}
		other := slices.IndexFunc(proof.Others, func(o rebalance.Placed) bool { return o.Of == m.UID })
		proof.Others[other].Node = answer.Node
	}
	return nil
}

// unitRecreated is recreated for the other pods of a unit.
func (p *prover) unitRecreated(ctx context.Context, a *rebalance.Action) error {
	for _, o := range a.Proof.Others {
		i := slices.IndexFunc(a.Proof.Live, func(pod corev1.Pod) bool { return pod.UID == o.Of })
		if i < 0 {
			return rebalance.Changed(a.Verdict.Pod)
		}
		next, err := p.created(ctx, &a.Of.Group, &a.Proof.Live[i])
		if err == nil && !sameCreated(next.Created, o.Created) {
			err = rebalance.ReasonChanged.Obstacle(rebalance.HoldChanged, "%s has changed", next.From)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
