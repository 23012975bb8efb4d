// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// restart replaces the scheduler of the package by a new one.
func restart(w *testenv.World, o cluster.ProgramOptions, meanwhile func()) {
	w.T.Helper()
	testenv.Kill(w.Scheduler())
	meanwhile()
	w.SetScheduler(w.StartScheduler(o))
}

// room is one node of a type for so many pods.
func room(name, capacityType string, pods int) cluster.NodeSpec {
	return cluster.NodeSpec{Name: name, CapacityType: capacityType, Pods: pods, CPU: "64"}
}

// A mix that is changed counts what runs by its new groups, and moves none of it.
func TestAMixWithOtherGroupsCountsWhatRuns(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	mix := builders.CapacityMix("web", 70, 2)
	stable, canary := track("web", "stable", 6), track("web", "canary", 4)
	w.Create(mix, stable, canary)
	before := w.SplitOf(w.WaitReady("web", 10))
	require.Equal(t, testenv.Split{Spot: 6, OnDemand: 4}, before)

	testenv.Patch(w, mix, func(m *v1alpha1.CapacityMix) { m.Spec.Group = v1alpha1.PodGroupingSelector })
	for n := 5; n <= 8; n++ {
		before = after(m, before, 1)
		w.Scale(canary, int32(n))
		w.WaitReady("web", 6+n)
		require.Equal(t, before, w.Split("web"), "%d pods", 6+n)
	}
	require.Equal(t, testenv.SplitBy(m, 14), before)

	// Each on its own again: 6 have 4 on spot, and 8 have 5 of those that are there.
	testenv.Patch(w, mix, func(m *v1alpha1.CapacityMix) { m.Spec.Group = "" })
	owners := byOwner(w.Live("web"))
	require.Len(t, owners, 2)
	for _, d := range []*appsv1.Deployment{stable, canary} {
		w.Scale(d, 20)
	}
	for _, pods := range byOwner(w.WaitReady("web", 40)) {
		require.Len(t, pods, 20)
		require.Equal(t, testenv.SplitBy(m, 20), w.SplitOf(pods))
	}
}

func TestUnitsKeepTheirTypeOverARestart(t *testing.T) {
	w := testenv.New(t, room("spot", "spot", 10), room("on-demand", "on-demand", 6))
	m := split.New(50, 0)
	w.Create(builders.CapacityMix("lws", 50, 0, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)))
	o := newLeaderWorkers(w, "lws", 4)
	record, nodes := w.Record("lws"), w.Types()
	o.scale(8)
	full := testenv.Split{Spot: 10, OnDemand: 6, Pending: 16}
	w.WaitSplit("lws", "both types are full, and groups wait in part", full)
	restart(w, testenv.SchedulerOptions(testenv.SecondScheduler), func() {
		for name, t := range map[string]capacity.Type{"spot-more": capacity.Spot, "on-demand-more": capacity.OnDemand} {
			w.AddNodes(room(name, t.String(), 50))
			nodes[name] = t
		}
	})
	o.waitUnits(8, m)
	requireUnitsWhole(w, record, nodes, groupKey)
	record.RequireOnTheirTypes(m)
}

// A unit that borrows does so whole: its other pods follow the first, also when spot has free capacity again.
func TestAUnitBorrowsWhole(t *testing.T) {
	w := testenv.New(t, room("spot", "spot", 100), room("on-demand", "on-demand", 14))
	w.Create(builders.CapacityMix("lws", 70, 1))
	o := newLeaderWorkers(w, "lws", 4)
	record, nodes := w.Record("lws"), w.Types()
	w.Cordon(true, "spot")
	o.scale(5)
	w.WaitSplit("lws", "on-demand is full", testenv.Split{OnDemand: 14, Pending: 6})
	w.Cordon(false, "spot")
	w.Eventually("units without pods on on-demand run on spot", func() (bool, string) {
		live := w.Live("lws")
		for _, pods := range byLabel(live, groupKey) {
			if s := w.SplitOf(pods); s.OnDemand == 0 && s.Spot != 4 {
				return false, w.SplitOf(live).String()
			}
		}
		return len(live) == 20, w.SplitOf(live).String()
	})
	w.AddNodes(room("on-demand-more", "on-demand", 10))
	nodes["on-demand-more"] = capacity.OnDemand
	w.WaitReady("lws", 20)
	requireUnitsWhole(w, record, nodes, groupKey)
}

func TestTheGroupsOfALeaderWorkerSetWithTheGateRunWhole(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("lws", 70, 2))
	o := newLeaderWorkers(w, "lws", 4, builders.Gated)
	record := w.Record("lws")
	for _, groups := range []int{3, 10, 4, 10}[:testenv.Length(2, 4)] {
		o.scaleTo(groups, m)
	}
	requireUnitsWhole(w, record, w.Types(), groupKey)
	record.RequireOnTheirTypes(m)
}

func TestTheMixOfALeaderWorkerSetMayBeInItsAnnotations(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	o := newLeaderWorkers(w, "lws", 4, func(t *corev1.PodTemplateSpec) { t.Annotations = annotated(70, 2, "") })
	o.scaleTo(10, split.New(70, 2))
}

func TestTheLeadersOfALeaderWorkerSetMayHaveARole(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("lws", 70, 2, withRole("leaders", v1alpha1.CapacityTypeOnDemand, workerIndex, "0")))
	o := newLeaderWorkers(w, "lws", 4)
	o.scale(10)
	pods := w.WaitReady("lws", 40)
	requireOnDemand(w, having(pods, workerIndex, "0"))
	requireUnits(w, byLabel(testenv.Where(pods, func(p *corev1.Pod) bool { return p.Labels[workerIndex] != "0" }), groupKey), 3, m)
}

// evictFirstItsWorkers evicts a leader such that it is gone after its workers.
func evictFirstItsWorkers(w *testenv.World, leader string) {
	w.T.Helper()
	foreground := metav1.DeletePropagationForeground
	require.NoError(w.T, w.Kube.PolicyV1().Evictions(w.Namespace).Evict(w.Ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: w.Namespace, Name: leader},
		DeleteOptions: &metav1.DeleteOptions{PropagationPolicy: &foreground},
	}), "evict leader %s", leader)
}

// A group on the wrong type runs on the right one once its leader was evicted in the foreground: its workers go first. Were they there
// when the next leader comes, it would have to run where they do.
func TestAGroupWhoseLeaderIsEvictedFollowsItsSlot(t *testing.T) {
	w := testenv.New(t, room("spot", "spot", 100), room("on-demand", "on-demand", 100))
	m := split.New(70, 1)
	w.Create(builders.CapacityMix("lws", 70, 1))
	o := newLeaderWorkers(w, "lws", 4, builders.TerminatesFor(time.Second))
	record, nodes := w.Record("lws"), w.Types()
	w.Cordon(true, "spot")
	o.scale(5)
	w.WaitReady("lws", 20)
	require.Equal(t, testenv.Split{OnDemand: 20}, w.Split("lws"))
	w.Cordon(false, "spot")
	for slot := range 5 {
		group := o.group(slot)
		leader := having(group, workerIndex, "0")[0]
		evictFirstItsWorkers(w, leader.Name)
		w.WaitGone(group)
		w.WaitReady("lws", 20)
	}
	o.waitUnits(5, m)
	requireUnitsWhole(w, record, nodes, groupKey)
}

// A kind that the configuration of the scheduler names.
func TestAKindOfTheConfigurationHasOnePodEach(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	const label = "test.example.com/pool"
	kind := onePod{
		kind: cloneSet, setLabel: label, labels: true,
		template: func(set, name string) []func(*corev1.PodTemplateSpec) {
			return []func(*corev1.PodTemplateSpec){labeled(label, set)}
		},
	}
	o := w.Variant(testenv.SecondScheduler, testenv.PluginArgs("CapacityMix", map[string]any{
		"onePodKinds": []map[string]string{{"apiGroup": kind.kind.Group, "kind": kind.kind.Kind, "setLabel": label}},
	}))
	restart(w, o, func() {})
	t.Cleanup(func() { restart(w, testenv.SchedulerOptions(testenv.SecondScheduler), func() {}) })
	w.Create(builders.CapacityMix("pool", 70, 2))
	random := rand.New(rand.NewPCG(7, 7))
	for _, name := range []string{"a", "b"} {
		s := kind.newSet(w, "pool", name)
		s.grow(10, random)
	}
	requireEach(w, byLabel(w.WaitBound("pool", 20), label), 2, m)
}
