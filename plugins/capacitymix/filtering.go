// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/mix"
	"berth.dev/berth/internal/policy"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// Reasons that stand in a pod's events and condition. The slot and the types
// complete them; the scheduler counts equal ones.
const (
	ErrReasonWrongType   = "node(s) are %s, slot %d needs %s"
	ErrReasonUnknownType = "node(s) have no known capacity type"
	ErrReasonDeparting   = "node(s) are departing"
	ErrReasonGone        = "pod is gone"
)

// cycle is what PreFilter found out about a pod, for the rest of its
// scheduling cycle. Filter and Score only read it.
type cycle struct {
	policy  *policy.Policy
	group   policy.GroupKey
	slot    int
	wants   capacity.Type
	attempt ledger.Attempt
	// wrongType is the reason that Filter gives for nodes of the other type.
	wrongType string
	// domains and least are set by PreScore: the spread of the group's spot
	// pods, and the lowest count among the nodes to be scored.
	domains ledger.Domains
	least   int32
}

// Clone returns the cycle itself: preemption, which clones, changes nothing in it.
func (c *cycle) Clone() fwk.StateData { return c }

// cycleOf returns the cycle of a pod, nil for a pod that no mix steers.
func cycleOf(state fwk.CycleState) *cycle {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil
	}
	c, _ := data.(*cycle)
	return c
}

// PreFilter finds the pod's mix and claims its slot.
func (pl *CapacityMix) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*framework.PreFilterResult, *fwk.Status) {
	if err := pl.wait(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	p, invalid := pl.resolver.Resolve(pod)
	if len(invalid) > 0 {
		pl.reports.invalidAnnotations(pod, invalid)
	}
	// A pod that names a capacity type itself is counted once it runs, and not steered.
	if p == nil || pl.classifier.Pins(&pod.Spec) {
		pl.ledger.Drop(pod.UID)
		return nil, fwk.NewStatus(fwk.Skip)
	}
	c, err := pl.claim(pod, p)
	if errors.Is(err, ledger.ErrGone) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonGone)
	} else if err != nil {
		return nil, fwk.AsStatus(err)
	}
	names := pl.narrow(pod, c)
	c.wrongType = wrongTypeReason(c.wants, c.slot)
	state.Write(preFilterStateKey, c)
	if names == nil {
		return nil, nil
	}
	return &framework.PreFilterResult{NodeNames: names}, nil
}

// claim takes or confirms the pod's slot.
func (pl *CapacityMix) claim(pod *corev1.Pod, p *policy.Policy) (*cycle, error) {
	group, _ := policy.GroupOf(pod, p)
	slot, ok := policy.IdentitySlot(pod, pl.controllers)
	if !ok {
		slot = mix.NoSlot
	}
	nominated := pod.Status.NominatedNodeName != ""
	hold, err := pl.ledger.Claim(ledger.Claim{
		Pod: pod, Group: group, Policy: p, Slot: slot,
		Keep:   nominated,
		Exists: func() bool { return pl.exists(pod) },
	})
	if err != nil {
		return nil, err
	}
	c := &cycle{policy: p, group: group, slot: hold.Slot, wants: p.Mix.TypeOf(hold.Slot), attempt: hold.Attempt}
	if nominated {
		// Preemption makes room on a node of the slot's type; nothing else is looked for.
		c.attempt.Stage = ledger.StagePreempt
	}
	return c, nil
}

// exists reports whether the API server is known to have the pod.
func (pl *CapacityMix) exists(pod *corev1.Pod) bool {
	known, err := pl.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && known.UID == pod.UID
}

// narrow returns the sample of nodes that the pod is tried on first; nil means
// no narrowing, and puts the cycle into the next stage.
func (pl *CapacityMix) narrow(pod *corev1.Pod, c *cycle) sets.Set[string] {
	if c.attempt.Stage != ledger.StageSample {
		return nil
	}
	if pl.sampleSize > 0 && pl.ledger.Side(c.wants) > pl.sampleSize && !particular(pod) {
		if names := pl.sample(pod, c.wants); len(names) > 0 {
			return names
		}
	}
	c.attempt.Stage = ledger.StageType
	return nil
}

// PreFilterExtensions returns nil: what a pod may run on follows from the slot
// that it holds, and neither adding nor removing other pods to a node changes
// that. The ledger counts by UID, so nominated and preempted pods are counted
// right without being told.
func (pl *CapacityMix) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter lets the pod run on nodes of its slot's type and, when it borrows, of
// the other type. Nothing that preemption could do helps on any other node.
func (pl *CapacityMix) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c := cycleOf(state)
	if c == nil {
		return nil
	}
	n := pl.node(nodeInfo)
	switch {
	case n.Departing:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonDeparting)
	case n.Type == c.wants:
		return nil
	case n.Type == capacity.Unknown:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonUnknownType)
	case c.attempt.Stage == ledger.StageBorrow:
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.wrongType)
}

// node returns what is known of a node. The node event can be behind the
// scheduler's snapshot; then the node's own labels are read.
func (pl *CapacityMix) node(nodeInfo fwk.NodeInfo) ledger.Node {
	node := nodeInfo.Node()
	if n, known := pl.ledger.Node(node.Name); known {
		return n
	}
	return pl.ledger.Describe(node)
}

func wrongTypeReason(wants capacity.Type, slot int) string {
	return "node(s) are " + wants.Other().String() + ", slot " + strconv.Itoa(slot) + " needs " + wants.String()
}
