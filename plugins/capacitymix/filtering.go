// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
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
	// settled: slot and type were given to the pod before, by opening its gate.
	settled bool
	// nominated: preemption makes room for the pod on a node of its type.
	nominated bool
	// wrongType is the reason that Filter gives for nodes of the other type, written when it is first needed.
	wrongType atomic.Pointer[string]
	// spread and least are set with the sample, or by PreScore: how the group's
	// pods are spread, and the fewest around a node among those to be scored.
	spread ledger.Spread
	least  crowd
	// finalists are the best of the sample, where only those are handed on.
	finalists sets.Set[string]
}

// skip is the answer to what is not this plugin's business. The framework does
// not change a status that reports it, and so it costs no pod without a mix an allocation.
var skip = fwk.NewStatus(fwk.Skip)

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
	misses := pl.controllers.misses.Load()
	p, invalid := pl.resolver.Resolve(pod)
	if pl.controllers.misses.Load() != misses && pl.unread(pod) {
		// Its owner was known when it was queued, and is not any more.
		pl.inquiry.hold(pod)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonAsking)
	}
	if len(invalid) > 0 {
		pl.reports.invalidAnnotations(pod, invalid)
	}
	limited, opened := gate.Opened(pod)
	// A pod that names a capacity type itself is counted once it runs, and not steered.
	if p == nil || !opened && pl.classifier.Pins(&pod.Spec) {
		pl.ledger.Drop(pod.UID)
		return nil, skip
	}
	pl.underway.wait(ctx)
	var c *cycle
	if opened {
		c = pl.settledCycle(pod, p, limited)
	} else {
		var err error
		if c, err = pl.claim(pod, p); errors.Is(err, ledger.ErrGone) {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonGone)
		} else if err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	names := pl.narrow(pod, c)
	state.Write(preFilterStateKey, c)
	if names == nil {
		return nil, nil
	}
	return &framework.PreFilterResult{NodeNames: names}, nil
}

// claim takes or confirms the pod's slot.
func (pl *CapacityMix) claim(pod *corev1.Pod, p *policy.Policy) (*cycle, error) {
	nominated := pl.nominated(pod)
	hold, err := pl.hold(pod, p, nominated)
	if err != nil {
		return nil, err
	}
	group, _ := policy.GroupOf(pod, p)
	c := &cycle{policy: p, group: group, slot: hold.Slot, wants: p.Mix.TypeOf(hold.Slot), attempt: hold.Attempt, nominated: nominated}
	if nominated { // nothing else is looked for
		c.attempt.Stage = ledger.StagePreempt
	}
	return c, nil
}

// settledCycle is the cycle of a pod whose gate was opened: it has its slot and
// its type already, and neither borrows nor takes another slot.
func (pl *CapacityMix) settledCycle(pod *corev1.Pod, p *policy.Policy, limited capacity.Type) *cycle {
	final := *p
	final.BorrowOnDemand, final.BorrowSpot = false, false
	c := &cycle{policy: &final, settled: true, wants: limited, attempt: pl.ledger.AttemptOf(pod.UID)}
	c.group, _ = policy.GroupOf(pod, p)
	c.slot, _ = policy.ClaimedSlot(pod)
	if c.nominated = pl.nominated(pod); c.nominated {
		c.attempt.Stage = ledger.StagePreempt
	}
	return c
}

// hold takes or confirms a pod's slot in the ledger.
func (sh *shared) hold(pod *corev1.Pod, p *policy.Policy, keep bool) (ledger.Hold, error) {
	group, _ := policy.GroupOf(pod, p)
	slot, ok := policy.IdentitySlot(pod, sh.controllers)
	if !ok {
		slot = split.NoSlot
	}
	return sh.ledger.Claim(ledger.Claim{Pod: pod, Group: group, Policy: p, Slot: slot, Keep: keep, Exists: func() bool { return sh.exists(pod) }})
}

// exists reports whether the API server is known to have the pod.
func (sh *shared) exists(pod *corev1.Pod) bool {
	known, err := sh.pods.Pods(pod.Namespace).Get(pod.Name)
	return err == nil && known.UID == pod.UID
}

// narrow returns the sample of nodes that the pod is tried on first; nil means
// no narrowing, and puts the cycle into the next stage.
func (pl *CapacityMix) narrow(pod *corev1.Pod, c *cycle) sets.Set[string] {
	if c.attempt.Stage != ledger.StageSample {
		return nil
	}
	if pl.sampleSize > 0 && pl.ledger.Side(c.wants) > pl.sampleSize && !particular(pod, pl.opener.label.Key) {
		if names := pl.sample(pod, c); len(names) > 0 {
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
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, c.wrongTypeReason())
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

// wrongTypeReason is why nodes of the other type are refused. Filter is called for many nodes at once.
func (c *cycle) wrongTypeReason() string {
	if known := c.wrongType.Load(); known != nil {
		return *known
	}
	reason := "node(s) are " + c.wants.Other().String() + ", slot " + strconv.Itoa(c.slot) + " needs " + c.wants.String()
	c.wrongType.Store(&reason)
	return reason
}
