// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// zoned is a fixture with on-demand nodes in zones of their names and a mix of on-demand alone.
func zoned(t *testing.T, perZone int32, zones []string, change ...func(*v1alpha1.CapacityMix)) *fixture {
	t.Helper()
	f := newFixture(t)
	f.mix(t, plugintest.CapacityMix("web", 0, 0, append(change, builders.MaxPerZone(perZone))...))
	for _, zone := range zones {
		f.ungater.NodeHandler().OnAdd(plugintest.Node(zone, "on-demand"), false)
	}
	return f
}

// gated adds a pod with the gate.
func (f *fixture) gated(t *testing.T, i int, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := plugintest.GatedPod("web", i)
	for _, c := range change {
		c(pod)
	}
	f.cluster.SetPods(t, pod)
	return pod
}

// bind has the watch deliver a pod on a node.
func (f *fixture) bind(pod *corev1.Pod, node string) {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	f.addPod(pod)
}

// excluded are the zones that a pod must not use.
func excluded(t *testing.T, pod *corev1.Pod) (zones []string) {
	t.Helper()
	all := gate.Required(pod)
	require.NotEmpty(t, all)
	require.Equal(t, corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpExists}, all[0])
	for _, r := range all[1:] {
		require.Equal(t, corev1.NodeSelectorOpNotIn, r.Operator)
		zones = append(zones, r.Values...)
	}
	return zones
}

// named are the zones that a pod may use.
func named(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	all := gate.Required(pod)
	require.Len(t, all, 2)
	require.Equal(t, corev1.NodeSelectorOpIn, all[1].Operator)
	return all[1].Values
}

// Pods that wait for a zone that does not come would hold back all others without end.
func TestAPodGetsTheDomainsThatOthersWithoutANodeDoNotGet(t *testing.T) {
	f := zoned(t, 1, []string{"a", "b"})
	inA := f.ungate(t, f.gated(t, 0))
	f.bind(inA, "a")
	f.bind(f.ungate(t, f.gated(t, 1)), "b")
	waiting := f.ungate(t, f.gated(t, 2))
	require.Equal(t, []string{"a", "b"}, excluded(t, waiting))
	held := f.gated(t, 3)
	_, _, err := f.ungater.Patch(held)
	require.ErrorIs(t, err, errDomainsTaken)
	f.ungater.PodHandler().OnDelete(inA)
	assert.Equal(t, []string{"a"}, named(t, f.ungate(t, held)), "zone a has no replica, and the one that waits excludes it")
	_, _, err = f.ungater.Patch(f.gated(t, 4))
	require.ErrorIs(t, err, errDomainsTaken, "zone a is for one pod")
}

func TestAnUngatedPodExcludesFullDomains(t *testing.T) {
	f := zoned(t, 2, []string{"a", "b"})
	first, second := f.ungate(t, f.gated(t, 0)), f.gated(t, 1)
	assert.Empty(t, excluded(t, first))
	f.bind(first, "a")
	second = f.ungate(t, second)
	assert.Empty(t, excluded(t, second), "one more may be in each")
	f.bind(second, "a")
	third := f.ungate(t, f.gated(t, 2))
	assert.Equal(t, []string{"a"}, excluded(t, third))
}

// What an autoscaler is told is final, so no pod is told that it may use a domain that another one may fill.
func TestAPodIsHeldWhileOthersMayFillItsDomains(t *testing.T) {
	f := zoned(t, 2, []string{"a", "b"})
	var first []*corev1.Pod
	for i := range 2 {
		first = append(first, f.ungate(t, f.gated(t, i)))
	}
	held := f.gated(t, 2)
	_, _, err := f.ungater.Patch(held)
	require.ErrorIs(t, err, errDomainsTaken)
	f.ungater.leading.Store(true)
	f.bind(first[0], "a")
	assert.Equal(t, 1, f.ungater.queue.Len(), "it is tried again when another one has its node")
	held = f.ungate(t, held)
	assert.Equal(t, []string{"a"}, excluded(t, held), "the one that still waits may fill it")
}

// An autoscaler brings a node of another zone for these pods only.
func TestAPodExcludesAllDomainsOnceAllAreFull(t *testing.T) {
	f := zoned(t, 1, []string{"a"})
	f.bind(f.ungate(t, f.gated(t, 0)), "a")
	second := f.ungate(t, f.gated(t, 1))
	assert.Equal(t, []string{"a"}, excluded(t, second))
	_, _, err := f.ungater.Patch(f.gated(t, 2))
	require.ErrorIs(t, err, errDomainsTaken, "the next zone is for one pod")
}

func TestNodesThatAPodCannotUseAreNoDomains(t *testing.T) {
	f := zoned(t, 2, []string{"a"})
	spot, cordoned, other := plugintest.Node("spot", "spot"), plugintest.Node("cordoned", "on-demand"), plugintest.Node("other", "on-demand")
	cordoned.Spec.Unschedulable = true
	for _, n := range []*corev1.Node{spot, cordoned, other} {
		f.ungater.NodeHandler().OnAdd(n, false)
	}
	onlyA := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"} }
	f.bind(f.ungate(t, f.gated(t, 0, onlyA)), "a")
	f.ungate(t, f.gated(t, 1, onlyA))
	_, _, err := f.ungater.Patch(f.gated(t, 2, onlyA))
	require.ErrorIs(t, err, errDomainsTaken, "the one that waits may fill its only zone")
	assert.Equal(t, []string{"a"}, excluded(t, f.ungate(t, f.gated(t, 3))), "another zone is open to this one")
}

func TestThePodsOfAUnitExcludeTheSameDomains(t *testing.T) {
	f := zoned(t, 1, []string{"a", "b"}, byUnit)
	f.bind(f.ungate(t, f.gated(t, 0, ofUnit("u"))), "a")
	first := f.ungate(t, f.gated(t, 1, ofUnit("v")))
	second := f.ungate(t, f.gated(t, 2, ofUnit("v")))
	assert.Equal(t, []string{"a"}, excluded(t, first))
	assert.Equal(t, []string{"a"}, excluded(t, second), "and it is not held: they may have to start together")
	_, _, err := f.ungater.Patch(f.gated(t, 3, ofUnit("w")))
	require.ErrorIs(t, err, errDomainsTaken)
}

// A scheduler that starts sees the pods that the one before ungated.
func TestTheDomainsOfUngatedPodsAreReadFromThePods(t *testing.T) {
	f := zoned(t, 1, []string{"a", "b"})
	f.bind(f.ungate(t, f.gated(t, 0)), "a")
	waiting := f.ungate(t, f.gated(t, 1))
	next := zoned(t, 1, []string{"a", "b"})
	next.addPod(waiting)
	assert.Equal(t, []string{"a"}, named(t, next.ungate(t, next.gated(t, 2))), "the one that waits may fill zone b")
	next.ungater.PodHandler().OnDelete(waiting)
	assert.Equal(t, []string{"a"}, excluded(t, next.ungate(t, next.gated(t, 3))), "only zone a is spoken for")
}

func TestTheScopeOfAPodIsWithoutItsDomains(t *testing.T) {
	f := zoned(t, 1, []string{"a"})
	gated := f.gated(t, 0)
	before := scopeOf(gated, f.ungater.label)
	f.bind(f.ungate(t, f.gated(t, 1)), "a")
	after := f.ungate(t, gated)
	require.NotEmpty(t, excluded(t, after))
	assert.Equal(t, before.key, scopeOf(after, f.ungater.label).key)
}

func TestAPodThatIsHeldDoesNotWaitForASpotNode(t *testing.T) {
	f := newFallbackFixture(t, builders.MaxPerZone(1))
	spot := plugintest.Node("spot", "spot")
	spot.Labels[corev1.LabelTopologyZone] = "s"
	for _, n := range []*corev1.Node{spot, plugintest.Node("o", "on-demand")} {
		f.ungater.NodeHandler().OnAdd(n, false)
	}
	_, on := f.ungated(0)
	require.Equal(t, capacity.Spot, on)
	held := f.gated(t, 1)
	_, _, err := f.ungater.Patch(held)
	require.ErrorIs(t, err, errDomainsTaken)
	require.NotContains(t, f.fallback().waiting, held.UID, "it does not wait for a spot node")
}

// Another pod may fill the zone of the spot nodes, and not that of the on-demand ones.
func TestAPodFallsBackWhileItsDomainsOfSpotAreTaken(t *testing.T) {
	f := newFallbackFixture(t, builders.MaxPerZone(1))
	spot := plugintest.Node("spot", "spot")
	spot.Labels[corev1.LabelTopologyZone] = "s"
	for _, n := range []*corev1.Node{spot, plugintest.Node("o", "on-demand")} {
		f.ungater.NodeHandler().OnAdd(n, false)
	}
	failed := f.ungatedAndWaits(0)
	f.reconcile(failed)
	f.gone(failed)
	waiting := plugintest.GatedPod("web", 1)
	waiting.Spec.SchedulingGates = nil
	f.ungater.label.Limit(&waiting.Spec, capacity.Spot)
	gate.Require(waiting, []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"o"}},
	})
	gate.Annotate(waiting, map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(waiting, capacity.Spot)})
	f.tell(waiting)
	pod, on := f.ungated(2)
	assert.Equal(t, capacity.OnDemand, on)
	assert.Equal(t, []string{"o"}, named(t, pod))
}
