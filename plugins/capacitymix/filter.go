// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// Reasons in a pod's events and condition. The scheduler counts equal ones.
const (
	ErrReasonUnknownType = "node(s) have no known capacity type"
	ErrReasonDeparting   = "node(s) are departing"
)

// Filter lets the pod run on nodes of its slot's type and, when it borrows, of
// the other type. Nothing that preemption could do helps on any other node.
func (pl *CapacityMix) Filter(_ context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	s := readState(cycleState)
	if s == nil {
		return nil
	}
	n := pl.node(nodeInfo)
	switch {
	case n.Departing:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonDeparting)
	case n.Type == s.slotType && !s.elsewhere:
		if status := s.interrupted(pod, n); status != nil {
			return status
		}
		return s.refuse(n)
	case n.Type == capacity.Unknown:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonUnknownType)
	case s.attempt.Stage == ledger.StageBorrow && n.Type != s.slotType:
		return s.refuse(n)
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.wrongTypeReason())
}

// node returns the ledger's description of a node. The node event can be behind
// the scheduler's snapshot; then the node's own labels are read.
func (pl *CapacityMix) node(nodeInfo fwk.NodeInfo) ledger.Node {
	node := nodeInfo.Node()
	if n, known := pl.Ledger.Node(node.Name); known {
		return n
	}
	return pl.Ledger.Describe(node)
}

// wrongTypeReason is the reason for a node of the other type, with the slot and both types. Filter is called for many nodes at once.
func (s *preFilterState) wrongTypeReason() string {
	if known := s.wrongType.Load(); known != nil {
		return *known
	}
	reason := "node(s) are " + s.slotType.Other().String() + ", slot " + strconv.Itoa(s.slot) + " needs " + s.slotType.String()
	switch {
	case s.elsewhere:
		reason = "node(s) are " + s.slotType.String() + ", which has no free capacity for all pods of the unit"
	case s.fixed:
		reason = "node(s) are " + s.slotType.Other().String() + ", the unit of the pod runs on " + s.slotType.String()
	}
	s.wrongType.Store(&reason)
	return reason
}
