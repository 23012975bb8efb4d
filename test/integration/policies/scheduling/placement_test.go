// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Each of the workloads of one namespace has a policy of its own, beside one that has none.
func TestEachWorkloadHasItsPolicy(t *testing.T) {
	w := testenv.New(t, six()...)
	start(w)
	w.Create(
		builders.SchedulingPolicy("batch", selects("batch"), preset(v1alpha1.ScorePresetPack)),
		builders.SchedulingPolicy("web", selects("web"), preset(v1alpha1.ScorePresetSpread)),
		builders.SchedulingPolicy("poller", selects("poller"), tieBreaker(v1alpha1.TieBreakerRoundRobin),
			func(s *v1alpha1.SchedulingPolicySpec) {
				s.Score = &v1alpha1.ScoreRules{Functions: []v1alpha1.ScoreFunction{{Name: v1alpha1.ScoreAntiAffinity}}}
			}),
	)
	w.Create(builders.Deployment("batch", 12, builders.CPU("500m")))
	nodes, most := used(w.WaitBound("batch", 12))
	assert.Equal(t, []int{2, 8}, []int{nodes, most}, "12 half CPUs fill one node of 4, and half of another")

	w.Create(builders.Deployment("web", 6, builders.CPU("100m")))
	spread := testenv.NodesOf(w.WaitBound("web", 6))
	assert.LessOrEqual(t, 5, len(spread), "%v: one node is full", spread)

	w.Create(builders.Deployment("poller", 11, builders.CPU("10m")))
	nodes, most = used(w.WaitBound("poller", 11))
	assert.Equal(t, []int{5, 3}, []int{nodes, most}, "in turns: 11 pods on the five nodes that are not full")

	w.Create(builders.Deployment("other", 6))
	w.WaitBound("other", 6)
}

func TestAChangedPolicyAppliesToTheNextPods(t *testing.T) {
	w := testenv.New(t, six()...)
	start(w)
	p := builders.SchedulingPolicy("all", preset(v1alpha1.ScorePresetPack))
	w.Create(p, builders.Deployment("a", 6))
	nodes, _ := used(w.WaitBound("a", 6))
	require.Equal(t, 1, nodes)
	testenv.Patch(w, p, func(p *v1alpha1.SchedulingPolicy) { preset(v1alpha1.ScorePresetSpread)(&p.Spec) })
	// The scheduler's watch has the change a moment later: what is created then is spread.
	n := 0
	w.Eventually("pods are spread", func() (bool, string) {
		n++
		app := fmt.Sprint("b", n)
		w.Create(builders.Deployment(app, 6))
		nodes, _ := used(w.WaitBound(app, 6))
		return nodes == 6, fmt.Sprint(nodes, " nodes")
	})
}

// The mix is exact, and on each side of it the policy packs.
func TestAMixAndAPolicyBothHold(t *testing.T) {
	few := func(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" }
	w := testenv.New(t, append(cluster.Nodes("spot", 6, few), cluster.Nodes("on-demand", 6, few)...)...)
	start(w)
	d := builders.Deployment("web", 0, builders.CPU("500m"))
	w.Create(builders.SchedulingPolicy("pack", preset(v1alpha1.ScorePresetPack)), builders.CapacityMix("web", 50, 0), d)
	for _, n := range []int32{4, 9, 16} {
		w.Scale(d, n)
		w.RequireExact("web", split.New(50, 0), int(n))
	}
	nodes, most := used(w.Live("web"))
	assert.Equal(t, []int{2, 8}, []int{nodes, most}, "8 half CPUs fill one node of each type")
}

// A pod that borrows goes to a node of the other type only if none of its own has capacity, whatever the policy prefers.
func TestAPolicyChoosesAmongNodesOfTheSlotsType(t *testing.T) {
	w := testenv.New(t,
		cluster.NodeSpec{Name: "spot-small", CapacityType: "spot", CPU: "1", Memory: "4Gi"},
		cluster.NodeSpec{Name: "on-demand-large", CapacityType: "on-demand", CPU: "8", Memory: "32Gi"},
	)
	start(w)
	w.Create(builders.SchedulingPolicy("spread", preset(v1alpha1.ScorePresetSpread)), builders.CapacityMix("web", 100, 0),
		builders.Deployment("web", 4, builders.CPU("400m")))
	assert.Equal(t, map[string]int{"spot-small": 2, "on-demand-large": 2}, testenv.NodesOf(w.WaitBound("web", 4)))
}

func TestALimitAndAPolicyBothHold(t *testing.T) {
	const pool = "example.com/pool"
	nodes := six()
	for i := range nodes {
		nodes[i].Labels = map[string]string{pool: []string{"batch", "web"}[i%2]}
	}
	w := testenv.New(t, nodes...)
	start(w)
	w.Create(
		builders.ResourceLimit("batch", builders.SizeOnNodesWith(pool, "batch")),
		builders.SchedulingPolicy("pack", preset(v1alpha1.ScorePresetPack)),
		builders.Deployment("batch", 10, builders.OfSize("batch"), builders.CPU("500m")),
	)
	on := testenv.NodesOf(w.WaitBound("batch", 10))
	assert.Len(t, on, 2, "10 half CPUs fill one node of the pool and a part of another")
	for i := range nodes {
		if nodes[i].Labels[pool] == "web" {
			assert.Zero(t, on[nodes[i].Name], nodes[i].Name)
		}
	}
}

// The preferences of a ResourceLimit count as those of a pod do.
func TestLocalityFollowsThePreferencesOfALimit(t *testing.T) {
	nodes := six()
	nodes[4].Labels = map[string]string{"disk": "ssd"}
	w := testenv.New(t, nodes...)
	start(w)
	w.Create(builders.ResourceLimit("fast", builders.SizePrefers("disk", "ssd")),
		builders.SchedulingPolicy("locality", preset(v1alpha1.ScorePresetLocality)),
		builders.Deployment("web", 3, builders.OfSize("fast")))
	assert.Equal(t, map[string]int{nodes[4].Name: 3}, testenv.NodesOf(w.WaitBound("web", 3)))
}

func TestAProfileHasRulesForPodsWithoutAPolicy(t *testing.T) {
	w := testenv.New(t, six()...)
	start(w, testenv.PluginArgs("SchedulingPolicy", map[string]any{"defaultPolicy": map[string]any{"score": map[string]any{"preset": "Pack"}}}))
	w.Create(builders.Deployment("web", 6))
	nodes, _ := used(w.WaitBound("web", 6))
	assert.Equal(t, 1, nodes)

	o := w.Variant(testenv.SecondScheduler, testenv.PluginArgs("SchedulingPolicy",
		map[string]any{"defaultPolicy": map[string]any{"score": map[string]any{"preset": "Fast"}}}))
	o.Name = "invalid"
	assert.Contains(t, w.RequireStartFails(o), `pluginConfig.SchedulingPolicy.args.defaultPolicy.score.preset: `)
}
