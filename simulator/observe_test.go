// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	configuration "berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
)

// fixed has pools of four spot nodes and two on-demand nodes.
func fixed(t *testing.T, d time.Duration, csv string) *scenario.Scenario {
	t.Helper()
	s := scenarioOf(d, 1, &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2})
	s.NodePools[0].Nodes, s.NodePools[0].Fixed, s.NodePools[0].Availability = 4, true, available(t, csv)
	s.NodePools[1].Nodes, s.NodePools[1].Fixed = 2, true
	return s
}

func count(s State, capacityType string) (n int) {
	for i := range s.Nodes {
		if s.Nodes[i].Labels[typeLabel] == capacityType {
			n++
		}
	}
	return n
}

func TestAPoolOfAFixedSizeHasItsNodesWhateverRuns(t *testing.T) {
	s := fixed(t, 6*time.Hour, "0,9\n3600,1\n7200,3\n10800,9\n100000,9\n")
	s.Workloads[0].Replicas = 1
	s.Workloads[0].Events = []scenario.Event{{At: after(5 * time.Hour), Replicas: new(int32(100))}}
	const notice, launch = 120 * time.Second, 60 * time.Second
	times := []time.Duration{
		0, 59 * time.Minute, time.Hour + notice - time.Second, time.Hour + notice + time.Second, 2*time.Hour + launch - time.Second,
		2*time.Hour + launch + time.Second, 4 * time.Hour, 6*time.Hour - time.Second,
	}
	states, err := Observe(t.Context(), s, policy("Berth"), times...)
	require.NoError(t, err)
	var spot []int
	for i, state := range states {
		spot = append(spot, count(state, v1alpha1.CapacityTypeSpot))
		assert.Equal(t, 2, count(state, v1alpha1.CapacityTypeOnDemand), times[i])
	}
	assert.Equal(t, []int{4, 4, 4, 1, 1, 3, 4, 4}, spot, "empty nodes stay, those that are lost return as they are available, and there are no more")
	pods := 0
	for _, p := range states[len(states)-1].Pods {
		if p.Spec.NodeName != "" {
			pods++
		}
	}
	assert.Equal(t, 48, pods, "eight on each of six nodes")
}

func TestAPoolOfAFixedSizeReplacesInterruptedNodes(t *testing.T) {
	s := fixed(t, 30*24*time.Hour, "0,9\n10000000,9\n")
	s.NodePools[0].Availability = &scenario.Availability{MonthlyInterruptionPercent: new(99.0)}
	r := simulate(t, s, "Berth")
	assert.Positive(t, r.Interruptions)
	assert.InDelta(t, 4*30*24, r.SpotNodeHours, 2)
	assert.InDelta(t, r.Interruptions, r.Launched, 1)
}

func TestObserveHasTheMovesOfAWorkload(t *testing.T) {
	s := fixed(t, 4*time.Hour, "0,4\n3600,0\n7200,4\n100000,4\n")
	before, storm, back := 59*time.Minute, 119*time.Minute, 4*time.Hour-time.Second
	states, err := Observe(t.Context(), s, policy("Berth"), before, storm, back)
	require.NoError(t, err)
	on := func(s State, capacityType string) (n int) {
		nodes := map[string]corev1.Node{}
		for _, node := range s.Nodes {
			nodes[node.Name] = node
		}
		for _, p := range s.Pods {
			if nodes[p.Spec.NodeName].Labels[typeLabel] == capacityType {
				n++
			}
		}
		return n
	}
	var spot, moves []int
	for _, s := range states {
		spot = append(spot, on(s, v1alpha1.CapacityTypeSpot))
		moves = append(moves, s.Moves[types.NamespacedName{Namespace: "shop", Name: "web"}])
	}
	assert.Equal(t, []int{7, 0, 7}, spot)
	assert.Equal(t, []int{0, 0, 7}, moves)

	never := policy("Berth")
	never.Configuration = configuration.Default()
	never.Configuration.Mix.Rebalance.Mode = v1alpha1.RebalanceModeOff
	states, err = Observe(t.Context(), s, never, back)
	require.NoError(t, err)
	assert.Zero(t, on(states[0], v1alpha1.CapacityTypeSpot), "the configuration has no moves")
}
