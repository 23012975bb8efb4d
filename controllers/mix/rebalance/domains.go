// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// domains returns where a replacement may run once its replica is gone, for its placeholder.
func (p *prover) domains(
	ctx context.Context, w *evaluation, v rebalance.Verdict, next *corev1.Pod, own simulation.Holder,
) (simulation.Domains, *rebalance.Hold) {
	if err := p.takeSnapshot(ctx); err != nil {
		return simulation.Domains{}, w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "%v", err)
	}
	var others []simulation.Holder
	for _, h := range w.Placeholders {
		if h.UID != own.UID {
			others = append(others, simulation.Holder{UID: h.UID, Replica: h.Replica})
		}
	}
	return p.snapshot.Domains(simulation.Question{
		Pod: next, Gone: append(p.evicted(w), own.Replica), Nodes: p.nodesOf(v.Target),
		Wants: v.Target, Tolerations: w.Group.Governing.Tolerations[v.Target],
	}, own, others), nil
}

// misplaced reports whether a placeholder runs where the pods that are there do not allow the replacement by now: pods came or
// went since it was created. Another placeholder then waits for another node.
func (p *prover) misplaced(ctx context.Context, w *evaluation, v rebalance.Verdict, h rebalance.Placeholder) bool {
	if w.admitted.admitted == nil { // it was not proven
		return false
	}
	domains, hold := p.domains(ctx, w, v, w.admitted.admitted, simulation.Holder{UID: h.UID, Replica: h.Replica})
	return hold == nil && domains.Outside
}
