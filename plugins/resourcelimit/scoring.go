// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/limits/registry"
)

// PreScore skips a pod for which its size prefers no nodes.
func (pl *ResourceLimit) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if Preferring(state, pod) == nil {
		return skip
	}
	return nil
}

// Score returns the sum of the weights of the preferences that the node matches.
func (pl *ResourceLimit) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	limit := limitOf(state)
	if limit == nil {
		return 0, nil
	}
	return limit.Score(nodeInfo.Node()), nil
}

// ScoreExtensions returns the plugin, which normalizes.
func (pl *ResourceLimit) ScoreExtensions() fwk.ScoreExtensions { return pl }

// NormalizeScore gives the best node 100, as NodeAffinity does for a pod's own preferences.
func (pl *ResourceLimit) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var best int64
	for i := range scores {
		best = max(best, scores[i].Score)
	}
	for i := range scores {
		if best > 0 {
			scores[i].Score = fwk.MaxScore * scores[i].Score / best
		}
	}
	return nil
}

// Preferring returns the limit of a cycle's pod if it prefers nodes by preferences that are not in the pod's own affinity, nil
// otherwise.
func Preferring(state fwk.CycleState, pod *corev1.Pod) *registry.Compiled {
	if limit := limitOf(state); limit != nil && scores(limit, pod) {
		return limit
	}
	return nil
}
