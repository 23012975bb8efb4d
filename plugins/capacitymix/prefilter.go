// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/nodesample"
	"berth.dev/berth/plugins/internal/cyclestate"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// ErrReasonGone is the reason for a pod that was deleted meanwhile, ErrReasonRegrouping for one that waits until others are in the
// groups of a changed mix: their slots are not known there before.
const (
	ErrReasonGone       = "pod is gone"
	ErrReasonRegrouping = "pods of the namespace are being moved to the groups of a changed mix"
)

// errBehind is the error of an attempt before the ledger has the pod. The pod is tried again after its back-off.
var errBehind = errors.New("the ledger of plugin CapacityMix is behind the scheduling queue")

// PreFilter finds the pod's mix and claims its slot. It reads caches only, and waits for the ledger where the scheduling
// queue is ahead of it: the pod may replace one that the ledger still has.
func (pl *CapacityMix) PreFilter(
	ctx context.Context, cycleState fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if status := pl.Startup.NotSynced(); status != nil {
		return nil, status
	}
	if status := perscheduler.RefuseAlone(cycleState, pod); status != nil {
		return nil, status
	}
	version := pl.Version(pod.Namespace)
	p, invalid, known := pl.Lookups.Resolve(pl.resolver, pod)
	if !known {
		// The owner was evicted from the caches after PreEnqueue. The look-up runs beside the cycle and activates the pod.
		pl.Lookups.Enqueue(pod)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonLookupPending)
	}
	if len(invalid) > 0 {
		pl.Events.InvalidAnnotations(pod, invalid)
	}
	limitedTo, ungated := gate.LimitedTo(pod)
	// A pod that selects a capacity type itself is counted once it runs, and has no slot.
	if p == nil || !ungated && pl.Classifier.Pins(&pod.Spec) {
		pl.Ledger.Drop(pod.UID)
		return nil, skip
	}
	if !pl.Progress.Reach(ctx, pod.ResourceVersion) {
		return nil, fwk.AsStatus(errBehind)
	}
	if limitedTo == capacity.Unknown && pl.Regrouping(pod) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonRegrouping)
	}
	s, err := pl.slotOf(cycleState, pod, p, version, limitedTo)
	if err != nil {
		return nil, pl.withoutSlot(ctx, pod, err)
	}
	s.plugin = pl
	pl.avoid(s, pod, nodes)
	result := pl.sample(cycleState, pod, s)
	cycleState.Write(preFilterStateKey, s)
	return result, nil
}

// withoutSlot is the status of a pod that the ledger gives no slot.
func (pl *CapacityMix) withoutSlot(ctx context.Context, pod *corev1.Pod, err error) *fwk.Status {
	switch {
	case errors.Is(err, ledger.ErrGone):
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonGone)
	case errors.Is(err, ledger.ErrOutdated):
		return pl.retry(ctx, pod, ErrReasonMixChanged)
	}
	return fwk.AsStatus(err)
}

// slotOf is the pod's slot: one that it claims or, if the pod is tried with its group, one to take together with a node.
func (pl *CapacityMix) slotOf(
	cycleState fwk.CycleState, pod *corev1.Pod, p *governing.Mix, version ledger.Version, limitedTo capacity.Type,
) (*preFilterState, error) {
	if !cycleState.IsPodGroupSchedulingCycle() {
		return pl.claim(pod, p, version, limitedTo)
	}
	if limitedTo == capacity.Unknown {
		return pl.join(cycleState, pod, p, version), nil
	}
	s, err := pl.claim(pod, p, version, limitedTo)
	if err == nil {
		s.attempt.Stage = ledger.StageType
	}
	return s, err
}

// claim takes or confirms the pod's slot. A pod that was ungated, and limited to
// a type, has its slot already, and neither borrows nor takes another one.
func (pl *CapacityMix) claim(pod *corev1.Pod, p *governing.Mix, version ledger.Version, limitedTo capacity.Type) (*preFilterState, error) {
	s := &preFilterState{governing: p, ungated: limitedTo != capacity.Unknown}
	if s.ungated || pod.Status.NominatedNodeName != "" {
		s.attempt = pl.Ledger.AttemptOf(pod.UID)
		s.nominated = pl.nominated(pod, s.attempt)
	}
	member, _ := pl.Member(pod, p)
	s.group = member.Group
	if s.ungated {
		if len(p.MaxPerDomain) > 0 {
			s.limit(pl.Ledger.Limits(pl.ClaimOf(pod, member, p, version)), member.Unit, true)
		}
		s.governing, s.slotType = p.WithoutBorrowing(), limitedTo
		s.slot, _ = governing.ClaimedSlot(pod)
	} else {
		hold, err := pl.Claim(pod, member, p, version, s.nominated)
		if err != nil {
			return nil, err
		}
		s.hold(hold, member.Unit)
	}
	if s.nominated = s.nominated && pl.typeOf(pod.Status.NominatedNodeName) == s.slotType; s.nominated {
		s.attempt.Stage = ledger.StagePreempt // no other node is tried
	}
	return s, nil
}

// hold has the pod tried on what it holds. A pod of a unit does not borrow where others of its unit determine its type.
func (s *preFilterState) hold(h ledger.Hold, unit string) {
	s.slot, s.slotType, s.attempt = h.Slot, h.Type, h.Attempt
	s.limit(h.Limits, unit, h.Open)
	if s.fixed = h.Fixed; !h.Fixed {
		return
	}
	s.governing = s.governing.WithoutBorrowing()
	if s.attempt.Stage == ledger.StageBorrow {
		s.attempt.Stage = ledger.StageType
	}
}

// typeOf returns the type of a node, Unknown for one that is not there.
func (pl *CapacityMix) typeOf(node string) capacity.Type {
	n, _ := pl.Ledger.Node(node)
	return n.Type
}

// sample returns the sample of nodes that a new pod is tried on first. Where there
// is none, the pod goes on to the next stage. A pod that is tried where capacity is
// held for it needs none.
func (pl *CapacityMix) sample(cycleState fwk.CycleState, pod *corev1.Pod, s *preFilterState) *fwk.PreFilterResult {
	if s.attempt.Stage != ledger.StageSample {
		return nil
	}
	if r := cyclestate.ReadReserved(cycleState); r != nil && r.Restricts() {
		return nil
	}
	s.sampler = pl.sampler
	if p := cyclestate.ReadPolicy(cycleState); p != nil && p.Packs() {
		s.sampler = pl.packing
	}
	sample, ok := s.sampler.Sample(pl.handle.SnapshotSharedLister().NodeInfos(), pod, nodesample.Request{
		Group: s.group, Limited: s.around(), Type: s.slotType, Avoid: s.avoidsNodes(),
	})
	if !ok {
		s.attempt.Stage = ledger.StageType
		return nil
	}
	s.spread = sample.Spread
	if sample.Ranked {
		s.finalists = sample.Names
	}
	return &fwk.PreFilterResult{NodeNames: sample.Names}
}

// nominated reports whether preemption in this scheduler may free capacity for a
// pod on the node that its status names. An autoscaler names there the node that it
// launches for the pod: such a pod is tried like every other one. Preemption
// never chooses a node of the other type, which claim checks.
func (pl *CapacityMix) nominated(pod *corev1.Pod, attempt ledger.Attempt) bool {
	return pod.Status.NominatedNodeName != "" && (!attempt.PreemptedAt.IsZero() || pl.victimsTerminate(pod))
}

// victimsTerminate reports whether pods that can have been preempted for a pod are
// terminating on its nominated node, as DefaultPreemption decides it.
func (pl *CapacityMix) victimsTerminate(pod *corev1.Pod) bool {
	node, err := pl.handle.SnapshotSharedLister().NodeInfos().Get(pod.Status.NominatedNodeName)
	if err != nil {
		return false
	}
	priority := corev1helpers.PodPriority(pod)
	return slices.ContainsFunc(node.GetPods(), func(p fwk.PodInfo) bool {
		other := p.GetPod()
		return other.DeletionTimestamp != nil && corev1helpers.PodPriority(other) < priority
	})
}

// PreFilterExtensions returns nil: what a pod may run on follows from the slot
// that it holds, and neither adding nor removing other pods to a node changes
// that. The ledger counts by UID, so nominated and preempted pods are counted
// right without being added or removed.
func (pl *CapacityMix) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
