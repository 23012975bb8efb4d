// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

func TestConstraintsOfAnUngatedPodAreNotItsOwn(t *testing.T) {
	onSpot := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"} }
	type record struct {
		limitedTo             capacity.Type
		pinned, gated, usesIt bool
	}
	pinnedByUs := annotated(v1alpha1.UngateReasonAnnotation, v1alpha1.UngateReasonPinned)
	tests := map[string]struct {
		pod  *corev1.Pod
		want record
	}{
		"a pod like any other":              {podNamed("p"), record{}},
		"one that names its type":           {podNamed("p", onSpot), record{pinned: true}},
		"one that waits for its slot":       {podNamed("p", gated), record{gated: true, usesIt: true}},
		"one that names its type and waits": {podNamed("p", gated, onSpot), record{gated: true, usesIt: true, pinned: true}},
		"one that was ungated":              {podNamed("p", limitedTo(capacity.OnDemand)), record{limitedTo: capacity.OnDemand, usesIt: true}},
		"one with a copy of another's claim": {
			podNamed("p", limitedTo(capacity.Spot), annotated(v1alpha1.ClaimAnnotation, "uid-q/spot")), record{pinned: true},
		},
		"one with a claim and a gate, which no patch of ours leaves": {
			podNamed("p", limitedTo(capacity.Spot), gated), record{gated: true, usesIt: true, pinned: true},
		},
		"one that was ungated without a leader":          {podNamed("p", gate.Release), record{usesIt: true}},
		"one that was ungated because it names its type": {podNamed("p", onSpot, pinnedByUs), record{pinned: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newClusterState().podOf(tc.pod, nil)
			assert.Equal(t, tc.want, record{p.LimitedTo, p.Pinned, p.Gated, p.UsesGate})
		})
	}
}

func TestTheRemovalOfAnotherGateIsAChange(t *testing.T) {
	f := newClusterState()
	f.SetPod(podNamed("p", gated, func(p *corev1.Pod) {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/quota"})
	}))
	assert.True(t, f.Gated()[0].OtherGates)
	f.SetPod(podNamed("p", gated))
	assert.False(t, f.Gated()[0].OtherGates)
}

func TestTheRemovalOfTheGateIsAChange(t *testing.T) {
	f := newClusterState()
	f.SetPod(podNamed("p", gated))
	require.Len(t, f.Gated(), 1)
	changes := 0
	f.Changed = func(governing.GroupKey) { changes++ }
	f.SetPod(podNamed("p", limitedTo(capacity.Spot)))
	assert.Equal(t, 1, changes)
	assert.Empty(t, f.Gated())
	f.SetPod(podNamed("p", limitedTo(capacity.OnDemand)))
	assert.Equal(t, 2, changes, "another type")
}

func TestPodsOfANodeMayBeGatedToo(t *testing.T) {
	f := fill(newClusterState(),
		podNamed("young", made(2), gated),
		podNamed("daemon", made(1), gated, ownedBy("apps/v1", "DaemonSet", "ds", "uid-ds")),
		podNamed("free"))
	var names []string
	for _, p := range f.Gated() {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"daemon", "young"}, names, "the oldest first")
	f.DeletePod(types.NamespacedName{Namespace: namespaceName, Name: "daemon"}, "")
	assert.Len(t, f.Gated(), 1)
}

// Of ten replicas, 70 % spot and a floor of 2: the slots that are on-demand.
func TestAnUngatedPodHasItsSlot(t *testing.T) {
	rs := replicaSet("rs", 4)
	f := fill(newClusterState(), rs, nodeOf("od", capacity.OnDemand),
		podNamed("bound", owned(rs), slot(0), on("od")),
		// Older than the other, and on a higher slot: a lowest free one would be 1.
		podNamed("ungated", owned(rs), made(1), slot(5), limitedTo(capacity.Spot)),
		podNamed("waits", owned(rs), made(2), gated),
		podNamed("fell-back", owned(rs), made(3), slot(4), limitedTo(capacity.OnDemand), annotated(v1alpha1.FallbackAnnotation, "1/2026-01-01T00:00:00Z")))
	groups := f.Groups(namespaceName)
	require.Len(t, groups, 1)
	g := groups[0]
	var got []string
	for _, s := range g.Assignments {
		got = append(got, fmt.Sprintf("%s %d wants %s on %s pending %t", s.Pod.Name, s.Slot, s.Wants, s.On, s.Place == Pending))
	}
	assert.Equal(t, []string{
		"bound 0 wants on-demand on on-demand pending false",
		"waits 1 wants on-demand on on-demand pending true",
		"fell-back 4 wants spot on on-demand pending true",
		"ungated 5 wants spot on spot pending true",
	}, got)
	assert.True(t, g.Gated)
	assert.Empty(t, g.WrongSide(), "a pod without a node cannot move")
	fellBack := g.Assignments[2].Pod
	assert.Equal(t, "1/2026-01-01T00:00:00Z", fellBack.Annotations[v1alpha1.FallbackAnnotation])
	limited, ok := gate.LimitedToBy(fellBack.Annotations, string(fellBack.UID))
	assert.True(t, ok, "its annotation of the fallback is its own")
	assert.Equal(t, capacity.OnDemand, limited)
}

func TestASpreadHoldsForEachTypeOnItsOwn(t *testing.T) {
	spread := func(when corev1.UnsatisfiableConstraintAction, policy *corev1.NodeInclusionPolicy) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: when, NodeAffinityPolicy: policy,
			}}
		}
	}
	hard := spread(corev1.DoNotSchedule, nil)
	onSpot := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"} }
	honor, ignore := corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore
	for name, tc := range map[string]struct {
		replicas int32
		changes  []a[*corev1.Pod]
		want     bool
	}{
		"a hard spread":               {10, []a[*corev1.Pod]{gated, hard}, true},
		"an explicit policy":          {10, []a[*corev1.Pod]{gated, spread(corev1.DoNotSchedule, &honor)}, true},
		"one that ignores selectors":  {10, []a[*corev1.Pod]{gated, spread(corev1.DoNotSchedule, &ignore)}, false},
		"a soft one":                  {10, []a[*corev1.Pod]{gated, spread(corev1.ScheduleAnyway, nil)}, false},
		"none":                        {10, []a[*corev1.Pod]{gated}, false},
		"without the gate":            {10, []a[*corev1.Pod]{hard}, false},
		"all replicas are on-demand":  {2, []a[*corev1.Pod]{gated, hard}, false},
		"the pod names its own type":  {10, []a[*corev1.Pod]{gated, hard, onSpot}, false},
		"its gate is removed already": {10, []a[*corev1.Pod]{limitedTo(capacity.Spot), hard}, true},
	} {
		rs := replicaSet("rs", tc.replicas)
		groups := fill(newClusterState(), rs, podNamed("p", append([]a[*corev1.Pod]{owned(rs)}, tc.changes...)...)).Groups(namespaceName)
		require.Len(t, groups, 1, name)
		assert.Equal(t, tc.want, groups[0].SpreadsByType(), name)
	}
}

func TestAnUngatedPodWithoutASlotGetsOneOfItsType(t *testing.T) {
	rs := replicaSet("rs", 1)
	f := fill(newClusterState(), rs, podNamed("p", owned(rs), limitedTo(capacity.Spot)))
	s := f.Groups(namespaceName)[0].Assignments[0]
	assert.Equal(t, capacity.Spot, s.Wants)
	assert.Equal(t, capacity.Spot, s.On)
}

func TestAStatefulSetsUngatedPodKeepsItsOrdinal(t *testing.T) {
	set := statefulSet("db", 6)
	f := fill(newClusterState(), set, podNamed("db-5", owned(set), slot(2), limitedTo(capacity.OnDemand)))
	s := f.Groups(namespaceName)[0].Assignments[0]
	assert.Equal(t, 5, s.Slot, "whatever is written on it")
	assert.Equal(t, capacity.OnDemand, s.On)
}

// The records of replicas share their annotations, whatever the gate wrote.
func TestTheClaimIsNotKeptForEachPod(t *testing.T) {
	f := newClusterState()
	f.SetPod(podNamed("a", slot(3), limitedTo(capacity.Spot)))
	before := f.tables()
	for i := range 100 {
		f.SetPod(podNamed(fmt.Sprintf("b-%d", i), slot(3), limitedTo(capacity.Spot)))
	}
	assert.Equal(t, before, f.tables())
	assert.NotContains(t, f.Pod(namespaceName, "a").Annotations, v1alpha1.ClaimAnnotation)
}

// A slot that a gate was removed for stays the pod's own, and its type as well,
// whatever else comes and goes: to the cluster state it is as if it were bound.
func TestUngatedPodsKeepTheirSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rs := replicaSet("rs", 20)
		f := fill(newClusterState(), rs, nodeOf("od", capacity.OnDemand), nodeOf("sp", capacity.Spot))
		slots := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}).Draw(t, "slots")
		mine := map[types.UID]split.Pod{}
		for i, n := range slots {
			p := podNamed(fmt.Sprintf("p-%d", i), owned(rs), made(rapid.IntRange(0, 5).Draw(t, "age")))
			switch drawText(t, "state", "waits", "bare", "ungated", "bound") {
			case "waits":
				gated(p)
			case "ungated":
				limited := rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}).Draw(t, "type")
				slot(n)(p)
				limitedTo(limited)(p)
				mine[p.UID] = split.Pod{Slot: n, On: limited}
			case "bound":
				slot(n)(p)
				on(drawText(t, "node", "od", "sp"))(p)
			}
			f.SetPod(p)
		}
		taken := map[int]bool{}
		for _, s := range f.Groups(namespaceName)[0].Assignments {
			require.False(t, taken[s.Slot], "slot %d twice", s.Slot)
			taken[s.Slot] = true
			if want, ungated := mine[s.Pod.UID]; ungated {
				require.Equal(t, want.Slot, s.Slot)
				require.Equal(t, want.On, s.On)
				require.Equal(t, Pending, s.Place)
			}
		}
	})
}
