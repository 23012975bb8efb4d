// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// closed returns the domains that the spread constraints of a replacement forbid once its replica and those of the other
// placeholders are gone, as requirements that exclude them, and whether a placeholder runs in such a domain.
func (p *prover) closed(
	ctx context.Context, w *evaluation, v rebalance.Verdict, next *corev1.Pod, holder types.UID,
) (requirements []corev1.NodeSelectorRequirement, within bool, hold *rebalance.Hold) {
	if !simulation.Spreads(next) {
		return nil, false, nil
	}
	if err := p.takeSnapshot(ctx); err != nil {
		p.api.noteOutage(err)
		return nil, false, w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "%v", err)
	}
	gone, others := append(p.evicted(w), v.Pod.UID), []types.UID(nil)
	for _, h := range w.Placeholders {
		if h.UID != holder {
			gone, others = append(gone, h.Replica), append(others, h.UID)
		}
	}
	requirements, within = p.snapshot.Closed(simulation.Question{
		Pod: next, Gone: gone, Wants: v.Target, Tolerations: w.Group.Policy.Tolerations[v.Target],
	}, others, holder)
	return requirements, within, nil
}

// misplaced reports whether a placeholder runs where the spread constraints of the replacement do not allow it by now: pods of
// the workload came or went since it was created. Another placeholder then waits for another node.
func (p *prover) misplaced(ctx context.Context, w *evaluation, v rebalance.Verdict, h rebalance.Placeholder) bool {
	if w.admitted.admitted == nil { // it was not proven
		return false
	}
	_, within, hold := p.closed(ctx, w, v, w.admitted.admitted, h.UID)
	return hold == nil && within
}
