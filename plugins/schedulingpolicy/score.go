// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/policies/score"
)

// PreScore scores all feasible nodes.
func (pl *SchedulingPolicy) PreScore(_ context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c := read(cycleState)
	if c == nil {
		return skip
	}
	t, err := pl.score(cycleState, c.governor, pod, nodes)
	if err != nil {
		return fwk.AsStatus(err)
	}
	c.table = t
	return nil
}

// Score returns nothing yet: NormalizeScore has the scores of all nodes.
func (pl *SchedulingPolicy) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

// ScoreExtensions returns the plugin, which normalizes.
func (pl *SchedulingPolicy) ScoreExtensions() fwk.ScoreExtensions { return pl }

// maxRanked is the number of nodes that have a score of their own, 100 to 0.
const maxRanked = int(fwk.MaxScore) + 1

// NormalizeScore selects a node, which gets 100 points. Where the strategy has no state and there are few enough nodes, the
// others get points in their order, for batching, which takes one after the other; else they get none.
func (pl *SchedulingPolicy) NormalizeScore(_ context.Context, cycleState fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList,
) *fwk.Status {
	c := read(cycleState)
	if c == nil || c.table == nil {
		return nil
	}
	t, chooser := c.table, c.governor.chooser
	t.selected, t.tied = chooser.Choose(t.candidates)
	if len(t.candidates) > maxRanked || !score.Stateless(c.governor.rules.TieBreaker) {
		for i := range scores {
			scores[i].Score = 0
			if scores[i].Name == t.candidates[t.selected].Node {
				scores[i].Score = fwk.MaxScore
			}
		}
		return nil
	}
	ranked := slices.Clone(t.candidates)
	chooser.Rank(ranked)
	points := make(map[string]int64, len(ranked))
	for i := range ranked {
		points[ranked[i].Node] = fwk.MaxScore - int64(i)
	}
	for i := range scores {
		scores[i].Score = points[scores[i].Name]
	}
	return nil
}
