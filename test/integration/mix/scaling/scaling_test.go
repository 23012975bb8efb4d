// SPDX-License-Identifier: Apache-2.0

// Package scaling_test scales Deployments down, and up and down, on a real control plane.
package scaling_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestScaleDownRemovesTheHighestSlotsWithoutBerthTouchingAPod",
		"TestScaleUpAndDownAtSixtyPercentIsExactAfterEachStep",
		"TestTheUsersOwnPodDeletionCostStaysOnEveryPod",
	}}))
}

func TestScaleDownRemovesTheHighestSlotsWithoutBerthTouchingAPod(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	web := builders.Deployment("web", 24)
	w.Create(builders.CapacityMix("web", 70, 2), web)
	w.WaitReady("web", 24)
	before := bySlot(w, w.RequireExact("web", m, 24))
	for _, n := range []int{23, 20, 13, 12, 7, 3, 1, 0} {
		w.Scale(web, int32(n))
		after := bySlot(w, w.RequireExact("web", m, n))
		for slot := range n {
			require.Equal(t, before[slot], after[slot], "slot %d of %d is still held by the same pod", slot, n)
		}
	}

	w.Reaches("the audit log shows the deletion of all 24 pods", 24, func() int {
		return len(w.Audit(func(r testenv.Request) bool { return r.Verb == "delete" && r.Resource == "pods" && r.OK() }))
	})
	require.Empty(t, w.Audit(func(r testenv.Request) bool {
		return r.User == cluster.BerthSchedulerUser && r.Write() && (r.Verb != "create" || r.Resource == "pods/eviction") &&
			r.Resource != "events" && r.Resource != "pods/status"
	}), "deletions, evictions and changes of pods by Berth")
}

// bySlot returns the UIDs of pods by their slot.
func bySlot(w *testenv.World, pods []corev1.Pod) map[int]types.UID {
	uids := map[int]types.UID{}
	for slot, p := range w.Slots(pods) {
		uids[slot] = p.UID
	}
	return uids
}

func TestTheUsersOwnPodDeletionCostStaysOnEveryPod(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 1)
	web := builders.Deployment("web", 10, builders.PodAnnotation(v1alpha1.PodDeletionCostAnnotation, "7"))
	w.Create(builders.CapacityMix("web", 60, 1), web)
	w.WaitReady("web", 10)
	for _, p := range w.ScaleExactly(web, m, 20) {
		require.Equal(t, "7", p.Annotations[v1alpha1.PodDeletionCostAnnotation], "the deletion cost of pod %s", p.Name)
		require.Contains(t, p.Annotations, v1alpha1.SlotAnnotation, "annotations of pod %s", p.Name)
	}
}

func TestScaleUpAndDownAtSixtyPercentIsExactAfterEachStep(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 1)
	web := builders.Deployment("web", 5)
	w.Create(builders.CapacityMix("web", 60, 1), web)
	for _, n := range []int32{5, 15, 8, 15, 5} {
		w.ScaleExactly(web, m, n)
	}
}

// A scale-down in the middle of a scale-up removes the pods that are not Ready
// yet first, whatever their slots. What is left may have gaps; they are filled
// by the next pods, and meanwhile every pod runs on the type of its slot.
func TestScaleUpAndDownAtOnceHoldsNoSlotTwice(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(60, 1)
	web := builders.Deployment("web", 5)
	w.Create(builders.CapacityMix("web", 60, 1), web)
	w.WaitReady("web", 5)
	record := w.Record("web")
	for range 4 {
		w.Scale(web, 15)
		w.Reaches("some of the new pods exist", 9, func() int { return len(w.Live("web")) })
		w.Scale(web, 8)
		pods := w.WaitReady("web", 8)
		w.Slots(pods) // none twice
		t.Logf("5 -> 15 -> 8 at once: %s, exact is %d spot", w.SplitOf(pods), m.Spot(8))

		for _, n := range []int32{15, 8, 5} {
			w.ScaleExactly(web, m, n)
		}
	}
	record.RequireOnTheirTypes(m)
	record.Replay(func(running map[types.UID]*corev1.Pod) {
		holders := map[string]string{}
		for _, p := range running {
			slot := p.Annotations[v1alpha1.SlotAnnotation]
			require.Empty(t, holders[slot], "the other holder of slot %s, beside %s", slot, p.Name)
			holders[slot] = p.Name
		}
	})
}
