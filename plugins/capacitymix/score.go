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
	s.spread = nodesample.SpreadOf(pl.Ledger, s.group, s.around(), s.slotType, nodes)
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

// Governs reports whether the pod of a scheduling cycle has a mix: then Score
// prefers nodes with few of its siblings around, and Bind binds the pod.
func Governs(cycleState fwk.CycleState) bool { return readState(cycleState) != nil }

// OtherType returns a function that reports whether a node has the other capacity type than that of the slot of a cycle's pod.
// It is nil for pods that do not borrow, which run on nodes of one type, and for pods without a slot.
func OtherType(cycleState fwk.CycleState) func(node string) bool {
	s := readState(cycleState)
	if s == nil || s.attempt.Stage != ledger.StageBorrow {
		return nil
	}
	return func(node string) bool {
		n, _ := s.plugin.Ledger.Node(node)
		return n.Type != s.slotType
	}
}

// Siblings returns how many pods of the group of a cycle's pod are around each of some nodes, and the most anywhere, as
// ledger.Siblings does. The group of a pod with a controller is the pods of that controller. ok is false for pods without a
// slot: those of their group that are being bound are not in the ledger yet.
func Siblings(cycleState fwk.CycleState, key string, nodes []fwk.NodeInfo) (around []ledger.Around, most ledger.Around, ok bool) {
	s := readState(cycleState)
	if s == nil {
		return nil, most, false
	}
	around, most = s.plugin.Ledger.Siblings(s.group, key, nodes)
	return around, most, true
}

// ScoreExtensions returns nil: scores are final.
func (pl *CapacityMix) ScoreExtensions() fwk.ScoreExtensions { return nil }
