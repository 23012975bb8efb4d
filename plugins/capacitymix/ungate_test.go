// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/test/plugintest"
)

// The promise of the gate path: it is another way to the same slots.
func TestGatesAndFilterGiveTheSameSlots(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		percent, floor := rapid.Int32Range(0, 100).Draw(rt, "percent"), rapid.Int32Range(0, 5).Draw(rt, "floor")
		cm := plugintest.CapacityMix("web", percent, floor)
		filtered, ungated := newFixture(t, plugintest.Args(), nil), newFixture(t, plugintest.Args(), nil)
		filtered.mix(t, cm)
		ungated.mix(t, cm)
		here := map[int][2]*corev1.Pod{}
		for i := range rapid.IntRange(1, 40).Draw(rt, "pods") {
			if n := len(here); n > 0 && rapid.IntRange(0, 3).Draw(rt, "leaves") == 0 {
				gone := rapid.IntRange(0, i-1).Draw(rt, "who")
				if pods, ok := here[gone]; ok {
					filtered.deletePod(pods[0])
					ungated.deletePod(pods[1])
					delete(here, gone)
				}
			}
			one, other := plugintest.Pod("web", i), plugintest.GatedPod("web", i)
			filtered.cluster.SetPods(rt, one)
			ungated.cluster.SetPods(rt, other)
			p, _ := filtered.plugin.resolver.Resolve(one)
			c, err := filtered.plugin.claim(one, p, filtered.plugin.Version(one.Namespace), capacity.Unknown)
			require.NoError(rt, err)
			one.Annotations, one.Spec.NodeName = annotations(framework.NewCycleState(), c, one), "node"
			filtered.addPod(one)
			after := ungated.ungate(rt, other)
			limited, ok := gate.LimitedTo(after)
			require.True(rt, ok)
			assert.Equal(rt, c.slotType, limited, "pod %d", i)
			if rapid.Bool().Draw(rt, "bound") { // it may be bound soon or never
				after.Spec.NodeName = "node"
				ungated.addPod(after)
			}
			delete(after.Annotations, v1alpha1.ClaimAnnotation)
			delete(after.Annotations, v1alpha1.UngatedAtAnnotation)
			assert.Equal(rt, one.Annotations, after.Annotations, "pod %d", i)
			after.Annotations[v1alpha1.ClaimAnnotation] = gate.ClaimOf(after, limited)
			here[i] = [2]*corev1.Pod{one, after}
		}
	})
}

func TestAnUngatedPodKeepsSlotAndTypeThroughARestart(t *testing.T) {
	f := newFixture(t, plugintest.Args(), []*corev1.Node{plugintest.Node("s", "spot"), plugintest.Node("d", "on-demand")})
	f.mix(t, plugintest.CapacityMix("web", 50, 0, func(cm *v1alpha1.CapacityMix) { cm.Spec.WhenOnDemandUnavailable = v1alpha1.WhenOnDemandUnavailableSpot }))
	first, second := plugintest.GatedPod("web", 0), plugintest.GatedPod("web", 1)
	f.cluster.SetPods(t, first, second)
	first, second = f.ungate(t, first), f.ungate(t, second)
	key := groupOf(first)
	p, _ := f.plugin.resolver.Resolve(first)
	pending := func(l *ledger.Ledger) map[string]int {
		slots := map[string]int{}
		for _, pod := range l.PendingOf(key) {
			hold, err := l.Claim(ledger.Claim{
				Pod: pod, Member: governing.Member{Group: key, Slot: split.NoSlot}, Governing: p, Version: l.Versions(pod.Namespace), Keep: true,
			})
			require.NoError(t, err)
			slots[pod.Name] = hold.Slot
		}
		_, pods := l.Size()
		assert.Len(t, slots, pods, "no pod has a node")
		return slots
	}
	assert.Equal(t, map[string]int{"web-0": 0, "web-1": 1}, pending(f.plugin.Ledger))

	// A slot that comes free is the next pod's: those that are ungated stay where they are.
	assert.Empty(t, f.plugin.Ledger.Forget(first.UID), "nobody is woken")
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.ctx, state, second, f.infos)
	require.True(t, status.IsSuccess(), status)
	assert.Equal(t, 1, readState(state).slot)
	assert.Equal(t, capacity.Spot, readState(state).slotType)
	require.True(t, f.plugin.Reserve(f.ctx, state, second, "s").IsSuccess())
	f.addPod(second) // an update that is not its Binding
	f.plugin.Unreserve(f.ctx, state, second, "s")
	third := plugintest.GatedPod("web", 2)
	f.cluster.SetPods(t, third)
	f.ungate(t, third)
	assert.Equal(t, map[string]int{"web-2": 0, "web-1": 1}, pending(f.plugin.Ledger))

	again := newFixture(t, plugintest.Args(), nil)
	again.mix(t, plugintest.CapacityMix("web", 50, 0))
	again.addPod(second)
	fourth := plugintest.GatedPod("web", 3)
	again.cluster.SetPods(t, fourth)
	again.ungate(t, fourth)
	assert.Equal(t, map[string]int{"web-3": 0, "web-1": 1}, pending(again.plugin.Ledger))
}
