// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/nodesample"
)

// PreScore finds how the group is spread over the nodes that are to be scored. Of
// a sample that is known already.
func (pl *CapacityMix) PreScore(_ context.Context, cycleState fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s := readState(cycleState)
	if s == nil {
		return skip
	}
	if s.attempt.Stage == ledger.StageSample {
		return nil
	}
	s.spread = nodesample.SpreadOf(pl.Ledger, s.group, s.slotType, nodes)
	return nil
}

// Score prefers the nodes of the slot's type and, among these, those with few
// pods of the group around them.
func (pl *CapacityMix) Score(_ context.Context, cycleState fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	s := readState(cycleState)
	if s == nil {
		return 0, nil
	}
	name := nodeInfo.Node().Name
	n, _ := pl.Ledger.Node(name)
	if n.Type != s.slotType {
		return 0, nil
	}
	return s.spread.Score(n, name), nil
}

// Spreads reports whether the pod of a scheduling cycle has a mix: then Score
// prefers nodes with few of its siblings around.
func Spreads(cycleState fwk.CycleState) bool { return readState(cycleState) != nil }

// ScoreExtensions returns nil: scores are final.
func (pl *CapacityMix) ScoreExtensions() fwk.ScoreExtensions { return nil }
