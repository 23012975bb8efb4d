// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

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
			split := w.SplitOf(pods)
			require.Equal(t, m.Spot(len(pods)), split.Spot, "spot pods of %d at %s: %s", len(pods), m, split)
			require.Equal(t, m.OnDemand(len(pods)), split.OnDemand, "on-demand pods of %d at %s: %s", len(pods), m, split)
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
	require.Equal(t, 8, w.Split("fleet").Spot)
	require.Equal(t, 2, w.Split("fleet").OnDemand)

	// 27 is the first size at which 8 pods belong on spot.
	require.Equal(t, 8, m.Spot(27))
	place(w, "fleet", step{pods: 17}, 10, owner)
	pods := w.WaitBound("fleet", 27)
	require.Equal(t, m.Spot(27), w.SplitOf(pods).Spot)
	require.Equal(t, m.OnDemand(27), w.SplitOf(pods).OnDemand)
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
	ours := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Spec.SchedulerName != builders.Scheduler })
	require.NotEmpty(w.T, ours)
	w.Slots(ours)
	requireAssignments(w, ours, m, func(p *corev1.Pod) int {
		slot, _ := policy.ClaimedSlot(p)
		return slot
	})
}
