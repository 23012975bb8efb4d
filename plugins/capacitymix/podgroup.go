// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/stages"
	"berth.dev/berth/plugins/internal/metrics"
)

// The members of a pod group are tried in one cycle: PreFilter to Reserve for one after the other, then Unreserve for all, and, if
// the group fits, Reserve again before each is bound. PostFilter is not called; PodGroupPostFilter is, once.

// retryGroupAfter is when a group is tried in its next stage. While it is being tried, the queue does not take an activation of it.
const retryGroupAfter = time.Second

// membersKey finds the members in the states of a placement and of a pod group's cycle.
const membersKey fwk.StateKey = "Members" + Name

// members are those of a pod group that were tried in one cycle, by the types of their slots.
type members map[capacity.Type]*tried

// tried are members with slots of one type.
type tried struct {
	// governing is their mix, without borrowing where a unit of some of them runs already.
	governing *governing.Mix
	count     int
	// units are those of the members.
	units map[string]bool
	// found is how many found a node of the type; without are those that found no node, with their stages.
	found   int
	without map[types.UID]ledger.Stage
}

// Clone implements fwk.StateData.
func (m members) Clone() fwk.StateData { return m }

// membersOf returns the members that were tried so far on a placement, of which a cycle has one unless it compares topologies. The
// last one is that of the cycle.
func membersOf(cycleState fwk.CycleState) members {
	placement := cycleState.GetPlacementCycleState()
	if data, err := placement.Read(membersKey); err == nil {
		if m, ok := data.(members); ok {
			return m
		}
	}
	m := members{}
	placement.Write(membersKey, m)
	cycleState.GetPodGroupSchedulingCycle().Write(membersKey, m)
	return m
}

// join finds the slot that a member of a pod group is to take when it has a node.
func (pl *CapacityMix) join(cycleState fwk.CycleState, pod *corev1.Pod, p *governing.Mix, version ledger.Version) *preFilterState {
	s := &preFilterState{governing: p}
	member, _ := pl.Member(pod, p)
	s.group = member.Group
	claim := pl.ClaimOf(pod, member, p, version)
	s.member = &claim
	s.hold(pl.Ledger.Next(claim), member.Unit)
	own := p.Mix.TypeOf(s.slot) // also where the unit runs on the other type
	s.tried = membersOf(cycleState).of(own, p)
	search := pl.Searches.Of(stages.GroupOf(pod), own)
	s.attempt = search.Member(s.tried.count)
	if member.Unit != "" {
		s.attempt = search.Member(search.Found) // all of a unit run on one type: those that found a node do so again only with the others
		s.tried.note(member.Unit, s.fixed)
	}
	s.tried.count++
	s.tried.without[pod.UID] = s.attempt.Stage
	switch {
	case s.fixed:
		s.attempt.Stage = ledger.StageType
	case member.Unit != "":
		s.elsewhere = s.attempt.Stage == ledger.StageBorrow
	}
	return s
}

// of are the members with slots of a type.
func (m members) of(t capacity.Type, p *governing.Mix) *tried {
	if m[t] == nil {
		m[t] = &tried{governing: p, units: map[string]bool{}, without: map[types.UID]ledger.Stage{}}
	}
	return m[t]
}

// note notes a member of a unit. One whose type is fixed before another member of its unit was tried follows pods that run.
func (m *tried) note(unit string, fixed bool) {
	if fixed && !m.units[unit] {
		m.governing = m.governing.WithoutBorrowing()
	}
	m.units[unit] = true
}

// take gives a member its slot and its node: for the rest of the group's cycle, and again when it is to be bound.
func (pl *CapacityMix) take(cycleState fwk.CycleState, pod *corev1.Pod, s *preFilterState, node string) error {
	if err := pl.Ledger.Take(*s.member, s.slot, node); err != nil {
		return err
	}
	if !cycleState.IsPodGroupSchedulingCycle() {
		pl.Searches.Forget(pod)
		return nil
	}
	delete(s.tried.without, pod.UID)
	if s.attempt.Stage == ledger.StageType {
		s.tried.found++
	}
	return nil
}

// PodGroupPostFilter moves a pod group that could not be placed to the next stage. As PostFilter, it must come before
// DefaultPreemption. The scheduling queue tries the group again after a back-off, which is long for a large group.
func (pl *CapacityMix) PodGroupPostFilter(
	ctx context.Context, cycleState fwk.PodGroupCycleState, group fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc,
) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	data, err := cycleState.Read(membersKey)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	all, _ := data.(members)
	now := pl.clock.Now()
	code := fwk.Unschedulable
	var messages []string
	var retryAt time.Time
	for _, t := range []capacity.Type{capacity.Spot, capacity.OnDemand} {
		if m := all[t]; m != nil && len(m.without) > 0 {
			next := pl.next(ctx, group, t, m, now)
			if !next.Preempt { // nothing is preempted while there may be capacity elsewhere
				code = fwk.UnschedulableAndUnresolvable
			}
			if next.Message != "" {
				messages = append(messages, next.Message)
			}
			retryAt = earlier(retryAt, next.RetryAt)
		}
	}
	if pods := group.GetUnscheduledPods(); len(pods) > 0 && !retryAt.IsZero() { // the timer of one pod is that of the group
		pl.Timers.Set(pods[0], retryAt, retryAt.Sub(now))
	}
	return nil, fwk.NewStatus(code, messages...)
}

// next decides what follows for the members with slots of a type, of which some found no node.
func (pl *CapacityMix) next(ctx context.Context, group fwk.PodGroupInfo, t capacity.Type, m *tried, now time.Time) stages.Next {
	key := types.NamespacedName{Namespace: group.GetNamespace(), Name: group.GetName()}
	attempt := pl.Searches.Of(key, t).Attempt
	attempt.Stage = m.stage()
	since := attempt.NoCapacitySince
	if since.IsZero() {
		since = groupWaitsSince(group.GetPodGroup(), t, now)
	}
	next := stages.After(stages.Failure{Attempt: attempt, SlotType: t, NoCapacitySince: since, Now: now}, m.governing)
	if next.Retry {
		next.RetryAt = now.Add(retryGroupAfter)
	}
	pl.Searches.Set(key, t, stages.Search{Attempt: next.Attempt, Found: m.found})
	metrics.StageTransitions.WithLabelValues(attempt.Stage.String(), next.Attempt.Stage.String()).Inc()
	klog.FromContext(ctx).V(4).Info("No node for all members of the pod group", "podGroup", klog.KRef(key.Namespace, key.Name),
		"type", t, "tried", m.count, "found", m.found, "stage", attempt.Stage, "next", next.Attempt.Stage)
	return next
}

// earlier is the earlier one of two times, of which each may be zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// stage is the first one in which a member found no node.
func (m *tried) stage() ledger.Stage {
	first := ledger.StagePreempt
	for _, stage := range m.without {
		first = min(first, stage)
	}
	return first
}

// groupWaitsSince reads from the condition of a pod group since when there is no capacity for it: a scheduler that has started
// again goes on with the wait.
func groupWaitsSince(group *schedulingv1beta1.PodGroup, t capacity.Type, now time.Time) time.Time {
	if group == nil {
		return now
	}
	c := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	if c == nil {
		return now
	}
	return waitBegan(c.Message, c.LastTransitionTime.Time, t, now)
}
