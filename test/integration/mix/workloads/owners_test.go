// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// createPods creates pods of an app, numbered from first, one right after the other.
func createPods(w *testenv.World, app string, first, n int, template ...func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	for i := range n {
		w.Create(builders.Pod(app, name(app, first+i), template...))
	}
}

// removeSlots deletes the pods on slots and returns how many are left.
func removeSlots(w *testenv.World, pods []corev1.Pod, slots ...int) (left int) {
	w.T.Helper()
	held := w.Slots(pods)
	gone := make([]corev1.Pod, 0, len(slots))
	for _, slot := range slots {
		require.Contains(w.T, held, slot)
		gone = append(gone, *held[slot])
		w.Delete(held[slot])
	}
	w.WaitGone(gone)
	return len(pods) - len(slots)
}

// requireRefill demands that new pods take the lowest free slots: the same
// slots, in the end, as if the first pods had never been deleted.
func requireRefill(w *testenv.World, app string, m split.Mix, template ...func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	createPods(w, app, 0, 10, template...)
	pods := w.RequireExact(app, m, 10)
	kept := removeSlots(w, pods, 0, 3, 4, 8)
	require.Equal(w.T, 6, kept)
	createPods(w, app, 10, 2, template...)
	w.WaitBound(app, 8)
	for i := range 2 {
		p := byName(w.Live(app))[name(app, 10+i)]
		slot, _ := governing.ClaimedSlot(&p)
		require.Contains(w.T, []int{0, 3}, slot, "the slot of pod %s: the two lowest free ones are 0 and 3", p.Name)
	}
	createPods(w, app, 12, 4, template...)
	w.RequireExact(app, m, 12)
}

func TestTheBarePodsOfACapacityMixAreOneGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("bare", 60, 2), builders.CapacityMix("other", 50, 0))
	requireRefill(w, "bare", split.New(60, 2))
	createPods(w, "other", 0, 7)
	w.RequireExact("other", split.New(50, 0), 7)
	w.RequireExact("bare", split.New(60, 2), 12)
}

// newFleet creates an object of a kind unknown to Berth and returns
// what makes it the controller of pods.
func newFleet(w *testenv.World, name string) func(*corev1.PodTemplateSpec) {
	w.T.Helper()
	require.NoError(w.T, w.Cluster.Apply(w.Ctx, builders.CRD("test.example.com", "v1", "Fleet", "")))
	fleet := &unstructured.Unstructured{}
	fleet.SetAPIVersion("test.example.com/v1")
	fleet.SetKind("Fleet")
	fleet.SetName(name)
	w.Create(fleet)
	return builders.OwnedBy(metav1.OwnerReference{
		APIVersion: fleet.GetAPIVersion(), Kind: fleet.GetKind(), Name: name, UID: fleet.GetUID(),
	})
}

func TestThePodsOfAThirdPartyOwnerAreTypedBySlot(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("fleet", 60, 2))
	requireRefill(w, "fleet", split.New(60, 2), newFleet(w, "first"))

	second := newFleet(w, "second")
	createPods(w, "fleet", 100, 5, second)
	pods := testenv.Where(w.WaitBound("fleet", 17), func(p *corev1.Pod) bool { return metav1.GetControllerOf(p).Name == "second" })
	require.Len(t, pods, 5)
	w.RequireExactPods(pods, split.New(60, 2))
}

func TestThePodsOfAThirdPartyOwnerHaveTheMixOfTheirOwnAnnotations(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	owned := newFleet(w, "annotated")
	requireRefill(w, "fleet", split.New(60, 2), owned, func(t *corev1.PodTemplateSpec) {
		maps.Copy(t.Annotations, builders.MixAnnotations(60, 2))
	})
}

// step is some pods of one group that are created and bound before the next.
type step struct {
	pods   int
	stock  bool   // by the default scheduler
	closed string // the type whose nodes are cordoned meanwhile
}

func TestPodsThatTheDefaultSchedulerBoundCountInTheirGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	for i, c := range []struct {
		what           string
		percent, floor int32
		steps          []step
	}{
		{"half by the default scheduler, wherever it likes", 50, 0, []step{{pods: 5, stock: true}, {pods: 15}}},
		{"first all on spot", 50, 0, []step{{pods: 6, stock: true, closed: "on-demand"}, {pods: 6}}},
		{"first all on on-demand", 70, 1, []step{{pods: 3, stock: true, closed: "spot"}, {pods: 7}}},
		{"more on spot than the first slots have, as many as the last size has", 50, 2, []step{{pods: 6, stock: true, closed: "on-demand"}, {pods: 6}}},
		{"in the middle of Berth's", 60, 1, []step{{pods: 4}, {pods: 6, stock: true, closed: "on-demand"}, {pods: 5}, {pods: 3, stock: true, closed: "spot"}, {pods: 7}}},
	} {
		w.Run(c.what, func(t *testing.T, w *testenv.World) {
			app := fmt.Sprintf("fleet%d", i)
			m := split.New(c.percent, c.floor)
			w.Create(builders.CapacityMix(app, c.percent, c.floor))
			pods := runSteps(w, app, c.steps)
			require.Equal(t, testenv.SplitBy(m, len(pods)), w.SplitOf(pods), "where %d pods at %s are", len(pods), m)
			requireBerthsOnTheirTypes(w, pods, m)
		})
	}
}

// With 8 of 10 on spot, where 3 belong, the best that is left is to put all others on on-demand.
func TestPodsOfTheDefaultSchedulerOnTheWrongTypeAreOffset(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	w.Create(builders.CapacityMix("fleet", 30, 1))
	m := split.New(30, 1)
	owner := newFleet(w, "fleet")
	place(w, "fleet", step{pods: 8, stock: true, closed: "on-demand"}, 0, owner)
	place(w, "fleet", step{pods: 2}, 8, owner)
	require.Equal(t, testenv.Split{Spot: 8, OnDemand: 2}, w.Split("fleet"))

	// 27 is the first size at which 8 pods belong on spot.
	require.Equal(t, 8, m.Spot(27))
	place(w, "fleet", step{pods: 17}, 10, owner)
	pods := w.WaitBound("fleet", 27)
	require.Equal(t, testenv.SplitBy(m, 27), w.SplitOf(pods))
	requireBerthsOnTheirTypes(w, pods, m)
}

// runSteps creates the pods of one owner step by step and returns them, bound.
func runSteps(w *testenv.World, app string, steps []step) []corev1.Pod {
	w.T.Helper()
	owner := newFleet(w, app)
	total := 0
	for _, s := range steps {
		place(w, app, s, total, owner)
		total += s.pods
	}
	return w.WaitBound(app, total)
}

func place(w *testenv.World, app string, s step, first int, owner func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	var closed []string
	for node, t := range w.Types() {
		if s.closed != "" && t.String() == s.closed {
			closed = append(closed, node)
		}
	}
	template := []func(*corev1.PodTemplateSpec){owner}
	if s.stock {
		template = append(template, builders.SchedulerName(corev1.DefaultSchedulerName))
	}
	w.Cordon(true, closed...)
	createPods(w, app, first, s.pods, template...)
	w.WaitBound(app, first+s.pods)
	w.Cordon(false, closed...)
}

// requireBerthsOnTheirTypes demands that the pods that Berth bound hold
// different slots and run on their types.
func requireBerthsOnTheirTypes(w *testenv.World, pods []corev1.Pod, m split.Mix) {
	w.T.Helper()
	ours := testenv.Where(pods, func(p *corev1.Pod) bool { return p.Spec.SchedulerName == builders.Scheduler })
	require.NotEmpty(w.T, ours)
	w.Slots(ours)
	requireAssignments(w, ours, m, func(p *corev1.Pod) int {
		slot, _ := governing.ClaimedSlot(p)
		return slot
	})
}
