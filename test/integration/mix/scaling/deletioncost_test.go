// SPDX-License-Identifier: Apache-2.0

package scaling_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// restored is longer than a deletion cost has to be right for the next repair of it to be made at once. Karpenter writes each minute.
const restored = 16 * time.Second

// restoredWithin bounds how long 20 costs are wrong, all of which may be restored at once.
const restoredWithin = 10 * time.Second

// costs returns the pods that have another deletion cost than wanted, by slot.
func costs(w *testenv.World, want func(slot int, p *corev1.Pod) string) (others []string) {
	for _, p := range w.Live("web") {
		slot, _ := governing.ClaimedSlot(&p)
		if found := p.Annotations[v1alpha1.PodDeletionCostAnnotation]; found != want(slot, &p) {
			others = append(others, fmt.Sprint(p.Name, " of slot ", slot, ": ", found))
		}
	}
	return others
}

func ofSlot(slot int, _ *corev1.Pod) string { return governing.DeletionCost(slot) }

func TestDeletionCostsThatKarpenterOverwritesAreRestored(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Controller(testenv.Impatient, packs(controller.ScaleInKeep))
	m := split.New(70, 2)
	web := builders.Deployment("web", 20)
	w.Create(builders.CapacityMix("web", 70, 2, builders.RebalanceMode(v1alpha1.RebalanceModeOff)), web)
	for _, n := range []int32{20, 12, 5, 20} {
		pods := w.ScaleExactly(web, m, n)
		w.WriteRanks(pods, -100)
		wrote := time.Now()
		w.UpTo(restoredWithin).Eventually("the costs of the slots are restored", func() (bool, string) {
			others := costs(w, ofSlot)
			return len(others) == 0, fmt.Sprint(others)
		})
		t.Logf("%d costs restored %s after the last of them was overwritten", n, time.Since(wrote).Round(10*time.Millisecond))
		testenv.Stays(w, restored, "nothing more is written", len(w.PodPatches()), func() int { return len(w.PodPatches()) })
	}
	w.ScaleExactly(web, m, 12)
	require.LessOrEqual(t, len(w.PodPatches()), 20+12+5+20, "one write for each cost that was overwritten")
	require.Empty(t, w.Evictions())
}

func TestAMixThatRespectsDeletionCostsReportsWhatTheyBreak(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Controller(testenv.Impatient, packs(controller.ScaleInPack))
	m := split.New(70, 2)
	web := builders.Deployment("web", 20)
	w.Create(builders.CapacityMix("web", 70, 2, builders.RespectCosts, builders.RebalanceMode(v1alpha1.RebalanceModeOff)), web)
	w.WaitReady("web", 20)
	pods := w.RequireExact("web", m, 20)
	none := func(int, *corev1.Pod) string { return "" }
	require.Empty(t, costs(w, none), "Berth writes no deletion cost")
	w.WaitCondition("web", v1alpha1.ConditionScaleDownExact, false, v1alpha1.ReasonDeletionCostsRespected)

	w.WriteRanks(pods, -100)
	ranks := map[string]string{}
	for _, p := range w.Live("web") {
		ranks[p.Name] = p.Annotations[v1alpha1.PodDeletionCostAnnotation]
	}
	w.Scale(web, 12)
	w.WaitSplit("web", "the replicas on on-demand nodes are removed first", testenv.Split{Spot: 12})
	w.UpTo(10*time.Second).WaitCondition("web", v1alpha1.ConditionSatisfied, false, v1alpha1.ReasonMixNotSatisfied)
	require.Empty(t, costs(w, func(_ int, p *corev1.Pod) string { return ranks[p.Name] }), "the costs of others stay")

	// New replicas have the types that are missing.
	w.Scale(web, 20)
	w.WaitReady("web", 20)
	w.WaitSplit("web", "the mix is exact again", testenv.SplitBy(m, 20))
	require.Empty(t, w.Evictions())

	w.WriteRanks(w.Live("web"), -200)
	w.Scale(web, 5)
	w.WaitSplit("web", "the replicas on on-demand nodes are removed first", testenv.Split{Spot: 5})
	w.ChangeMix("web", builders.RebalanceMode(v1alpha1.RebalanceModeEvict))
	w.WaitSplit("web", "the rebalancer repairs the mix", testenv.SplitBy(m, 5))
	w.WaitCondition("web", v1alpha1.ConditionSatisfied, true, v1alpha1.ReasonExact)

	// With Enforce the pods get the costs of their slots, also those that another client wrote.
	w.ChangeMix("web", func(cm *v1alpha1.CapacityMix) { cm.Spec.DeletionCost = v1alpha1.DeletionCostsEnforce })
	w.Eventually("the costs are those of the slots", func() (bool, string) {
		others := costs(w, ofSlot)
		return len(others) == 0, fmt.Sprint(others)
	})
	w.ScaleExactly(web, m, 3)
	w.ChangeMix("web", builders.RespectCosts)
	w.Eventually("the costs of Berth are removed", func() (bool, string) {
		others := costs(w, none)
		return len(others) == 0, fmt.Sprint(others)
	})
}
