// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// deletionCosts is Karpenter's alpha feature gate: it writes the deletion cost of all pods of ReplicaSets on its nodes, by the
// rank of the node, so that a scale-down empties the nodes that it would consolidate first.
const deletionCosts = "PodDeletionCostManagement"

// half is a mix that fills the nodes of both types: six replicas on two nodes each.
var half = split.New(50, 2)

const full = 4 * perNode

// With deletionCost Respect the costs are Karpenter's, and a scale-down removes on-demand replicas first, since their nodes cost more:
// neither the mix nor its minimum on on-demand survives it. The rebalancer repairs the mix. docs/autoscalers.md warns of this.
func TestDeletionCostsOfKarpenterAreRespected(t *testing.T) {
	// Karpenter ranks nodes of pools that it may consolidate, and consolidates none within this test.
	w, d := startFull(t, "1h", builders.RespectCosts)
	require.Empty(t, costsOf(w.Live("web")), "Berth writes no cost")
	w.WaitCondition("web", v1alpha1.ConditionScaleDownExact, false, v1alpha1.ReasonDeletionCostsRespected)
	w.restart(deletionCosts)
	ranks := w.waitRanks()

	w.Scale(d, full/2)
	w.UpTo(patience).WaitSplit("web", "all on-demand replicas are removed", testenv.Split{Spot: full / 2})
	for node, n := range testenv.NodesOf(w.Live("web")) {
		assert.Equal(t, perNode, n, "replicas on %s, of rank %d in %v", node, ranks[node], ranks)
	}
	w.UpTo(10*time.Second).WaitCondition("web", v1alpha1.ConditionSatisfied, false, v1alpha1.ReasonMixNotSatisfied)

	w.ChangeMix("web", builders.RebalanceMode(v1alpha1.RebalanceModeEvict))
	w.WaitExact("web", half, full/2, patience)
	assert.Equal(t, half.OnDemand(full/2), w.evictions(), "evictions")
	w.requireKarpentersNodes()
}

// With Enforce the controller restores what Karpenter overwrites, and what it removes where it does not consolidate.
func TestDeletionCostsThatKarpenterOverwritesAreRestored(t *testing.T) {
	for name, consolidateAfter := range map[string]string{"it writes ranks": "1h", "it removes costs": "Never"} {
		t.Run(name, func(t *testing.T) {
			w, d := startFull(t, consolidateAfter)
			w.requireCostsOfSlots()
			w.restart(deletionCosts)
			for _, n := range []int{full / 2, full / 4} {
				before := w.karpentersPatches()
				w.UpTo(patience).Eventually("Karpenter writes the deletion costs, and they are restored", func() (bool, string) {
					others := w.costsOfOthers()
					return w.karpentersPatches() > before && len(others) == 0, fmt.Sprint(others)
				})
				w.ScaleExactly(d, half, int32(n))
			}
			assert.Zero(t, w.evictions(), "evictions")
		})
	}
}

// karpentersPatches counts the pods that Karpenter has patched.
func (w *autoscaled) karpentersPatches() int {
	return len(w.Audit(func(r testenv.Request) bool {
		return r.User == cluster.KarpenterUser && r.Verb == "patch" && r.Resource == "pods" && r.OK()
	}))
}

// costsOfOthers returns the deletion costs that are not those of slots.
func (w *autoscaled) costsOfOthers() (others []string) {
	for _, pod := range w.Live("web") {
		slot, _ := governing.ClaimedSlot(&pod)
		if cost := pod.Annotations[v1alpha1.PodDeletionCostAnnotation]; cost != governing.DeletionCost(slot) {
			others = append(others, fmt.Sprint(pod.Name, " of slot ", slot, ": ", cost))
		}
	}
	return others
}

func (w *autoscaled) requireCostsOfSlots() {
	w.T.Helper()
	require.Empty(w.T, w.costsOfOthers(), "deletion costs that are not those of slots")
}

// startFull starts Karpenter without the gate, and a workload that fills its nodes. The controller evicts nothing.
func startFull(t *testing.T, consolidateAfter string, changes ...func(*v1alpha1.CapacityMix)) (*autoscaled, *appsv1.Deployment) {
	t.Helper()
	// Two nodes of each type, however many batches the pods come in.
	const cpus = "8"
	w := start(t,
		pool{name: "spot", types: []string{"spot"}, cpus: cpus, consolidateAfter: consolidateAfter},
		pool{name: "on-demand", types: []string{"on-demand"}, cpus: cpus, consolidateAfter: consolidateAfter})
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.AnnotationRepairsPerMinute = 600 })
	d := builders.Deployment("web", full, builders.CPU(cpu), builders.Gated)
	changes = append(changes, builders.RebalanceMode(v1alpha1.RebalanceModeOff))
	w.Create(builders.CapacityMix("web", half.SpotPercent, half.MinOnDemand, changes...), d)
	pods := w.WaitExact("web", half, full, patience)
	require.Len(t, testenv.NodesOf(pods), full/perNode, "nodes, all of which are full")
	return w, d
}

// waitRanks waits until all replicas have the rank of their node as their deletion cost, and returns the ranks: -1 for the node
// that is to be emptied last, and one less for each before it.
func (w *autoscaled) waitRanks() (ranks map[string]int) {
	w.T.Helper()
	w.Within(patience, "the replicas of each node have a deletion cost of their own", func() (bool, string) {
		pods := w.Live("web")
		ranks = map[string]int{}
		for _, pod := range pods {
			rank, err := strconv.Atoi(pod.Annotations[v1alpha1.PodDeletionCostAnnotation])
			if other, seen := ranks[pod.Spec.NodeName]; err != nil || (seen && other != rank) {
				return false, fmt.Sprint(costsOf(pods))
			}
			ranks[pod.Spec.NodeName] = rank
		}
		want := make([]int, len(ranks))
		for i := range want {
			want[i] = i - len(want)
		}
		return slices.Equal(slices.Sorted(maps.Values(ranks)), want), fmt.Sprint(ranks)
	})
	return ranks
}

// costsOf returns the deletion costs of pods that have one.
func costsOf(pods []corev1.Pod) map[string]string {
	costs := map[string]string{}
	for _, pod := range pods {
		if cost, set := pod.Annotations[v1alpha1.PodDeletionCostAnnotation]; set {
			costs[pod.Name] = cost
		}
	}
	return costs
}
