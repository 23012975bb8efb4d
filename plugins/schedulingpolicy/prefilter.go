// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/policies/decision"
)

// skip is shared: the framework does not change a status that reports it, and so it costs no pod without a policy an
// allocation.
var skip = fwk.NewStatus(fwk.Skip)

// PreFilter finds the policy that governs the pod, for the rest of its scheduling cycle: one cycle sees one generation.
func (pl *SchedulingPolicy) PreFilter(_ context.Context, cycleState fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if status := pl.NotSynced(); status != nil {
		return nil, status
	}
	if g := pl.governorOf(pod); g != nil {
		c := &cycle{governor: g, began: pl.clock.Now()}
		if g.keeps(decision.Bound) {
			c.rejected = &rejected{}
		}
		if status := pl.setGroup(c, pod); status != nil {
			return nil, status
		}
		write(cycleState, c)
	}
	return nil, skip
}

// PreFilterExtensions returns nil: the plugin filters nothing.
func (pl *SchedulingPolicy) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
