// SPDX-License-Identifier: Apache-2.0

package fallback_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A nodeSelector or a required affinity for a capacity type wins over the mix, a
// preference does not; pods of a DaemonSet belong to their nodes.
func TestOnlyAPodThatNamesNoTypeItselfIsSteered(t *testing.T) {
	onSpot, onOnDemand := []string{"spot-0", "spot-1"}, []string{"on-demand-0", "on-demand-1"}
	cases := []struct {
		name        string
		percent     int32
		pod         func(*corev1.PodTemplateSpec)
		want        []string // no other node has a pod
		wantSteered bool
	}{
		{"a nodeSelector for spot wins over a mix without spot", 0, builders.OnNodesWith(cluster.CapacityTypeLabel, spot), onSpot, false},
		{"a nodeSelector for on-demand wins over a mix of spot", 100, builders.OnNodesWith(cluster.CapacityTypeLabel, onDemand), onOnDemand, false},
		{"a required affinity for spot wins over a mix without spot", 0, builders.RequireNodeLabel(cluster.CapacityTypeLabel, corev1.NodeSelectorOpIn, spot), onSpot, false},
		{
			"a required affinity against spot wins over a mix of spot", 100, builders.RequireNodeLabel(cluster.CapacityTypeLabel, corev1.NodeSelectorOpNotIn, spot),
			append(onOnDemand, "unknown-0"), false,
		},
		{"a preferred affinity for spot yields to a mix without spot", 0, builders.PreferNodeLabel(cluster.CapacityTypeLabel, spot), onOnDemand, true},
		{"a preferred affinity for on-demand yields to a mix of spot", 100, builders.PreferNodeLabel(cluster.CapacityTypeLabel, onDemand), onSpot, true},
		{"a nodeSelector for something else leaves the mix in charge", 100, builders.OnNodesWith(corev1.LabelTopologyZone, "zone-a"), onSpot, true},
	}
	const replicas = 4
	w := testenv.New(t, node("spot-0", spot, "16"), node("spot-1", spot, "16"),
		node("on-demand-0", onDemand, "16"), node("on-demand-1", onDemand, "16"), node("unknown-0", "", "16"))
	app := func(i int) string { return fmt.Sprintf("case-%d", i) }
	for i, c := range cases {
		w.Create(builders.CapacityMix(app(i), c.percent, 0), builders.Deployment(app(i), replicas, c.pod))
	}
	w.Create(builders.CapacityMix("agent", 0, 0), builders.DaemonSet("agent"))
	for i, c := range cases {
		w.Run(c.name, func(t *testing.T, w *testenv.World) {
			pods := w.WaitBound(app(i), replicas)
			assert.Subset(t, c.want, slices.Collect(maps.Keys(testenv.NodesOf(pods))))
			for _, p := range pods {
				_, steered := governing.ClaimedSlot(&p)
				assert.Equal(t, c.wantSteered, steered, "has a slot: %v", p.Annotations)
			}
		})
	}
	w.Run("a DaemonSet runs on every node, whatever mix selects its pods", func(t *testing.T, w *testenv.World) {
		pods := w.WaitBound("agent", 5)
		assert.Equal(t, map[string]int{"spot-0": 1, "spot-1": 1, "on-demand-0": 1, "on-demand-1": 1, "unknown-0": 1}, testenv.NodesOf(pods))
		for _, p := range pods {
			assert.NotContains(t, p.Annotations, v1alpha1.SlotAnnotation)
			assert.NotContains(t, p.Annotations, v1alpha1.PodDeletionCostAnnotation)
			assert.Empty(t, w.BerthEvents(p.Name))
		}
	})
}

// Bare pods of one mix are one group, so some of it can name a type and others not.
func TestAPodThatNamesItsTypeIsCountedInTheSlotsOfItsGroup(t *testing.T) {
	m := split.New(50, 0) // slots 1, 3, 5, … are spot
	wantSlots := map[string][]int{
		spot:     {0, 2, 4, 5, 6, 7}, // the two that are pinned sit on 1 and 3
		onDemand: {1, 3, 4, 5, 6, 7}, // on 0 and 2
	}
	w := testenv.New(t, node("spot-0", spot, "16"), node("on-demand-0", onDemand, "16"))
	for pinned, slots := range wantSlots {
		w.Create(builders.CapacityMix(pinned, m.SpotPercent, m.MinOnDemand))
		for i := range 2 {
			w.Create(builders.Pod(pinned, fmt.Sprintf("%s-pinned-%d", pinned, i), builders.OnNodesWith(cluster.CapacityTypeLabel, pinned)))
		}
		w.WaitBound(pinned, 2)
		for i := range slots {
			w.Create(builders.Pod(pinned, fmt.Sprintf("%s-steered-%d", pinned, i)))
		}
	}
	for pinned, slots := range wantSlots {
		w.Run("two pods pinned to "+pinned, func(t *testing.T, w *testenv.World) {
			pods := w.WaitBound(pinned, 8)
			assert.Equal(t, testenv.Split{Spot: 4, OnDemand: 4}, w.SplitOf(pods))
			steered := testenv.Where(pods, func(p *corev1.Pod) bool { return p.Spec.NodeSelector == nil })
			assert.Equal(t, slots, slices.Sorted(maps.Keys(w.Slots(steered))))
		})
	}
}
