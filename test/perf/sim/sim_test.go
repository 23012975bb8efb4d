// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/test/perf/bench"
	"berth.dev/berth/test/perf/sim"
)

func run(t require.TestingT, c sim.Config) sim.Outcome {
	o, err := sim.Run(c)
	require.NoError(t, err)
	return o
}

func small() sim.Config {
	return sim.Config{
		Leaders: 4, Nodes: 100, Capacity: 10, Pods: 900, Workloads: 30, Cycle: 100 * time.Microsecond, Binds: 10_000,
		InFlight: 100, Lag: 50 * time.Millisecond, Backoff: time.Second, Sample: 4, Seed: 1,
	}
}

func draw(t *rapid.T) sim.Config {
	n := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
	c := sim.Config{
		Leaders: n("leaders", 1, 6), Disjoint: rapid.Bool().Draw(t, "disjoint"), Nodes: n("nodes", 6, 60), Capacity: n("capacity", 1, 9),
		Pods: n("pods", 1, 700), Workloads: n("workloads", 1, 40), Cycle: time.Duration(n("cycle", 0, 500)) * time.Microsecond, Binds: n("binds", 100, 20_000),
		Lag: time.Duration(n("lag", 0, 100)) * time.Millisecond, Backoff: time.Duration(n("backoff", 1, 1000)) * time.Millisecond,
		Sample: n("sample", 1, 8), InFlight: n("in flight", 1, 100), Seed: rapid.Uint64().Draw(t, "seed"),
	}
	return c
}

func TestEveryPodIsPlacedOrStranded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		o := run(t, c)
		require.Equal(t, c.Pods, o.Placed+o.Stranded)
		require.LessOrEqual(t, o.Placed, c.Nodes*c.Capacity)
		require.Equal(t, o, run(t, c), "equal configurations have equal outcomes")
		if c.Leaders == 1 || c.Disjoint {
			require.Zero(t, o.Refused, "no other leader uses the nodes")
		}
		if !c.Disjoint && c.Pods <= c.Nodes*c.Capacity && c.Leaders == 1 {
			require.Zero(t, o.Stranded, "one leader finds room as long as there is some")
		}
	})
}

func TestTheSlowerOfLeadersAndAPIServerSetsThePace(t *testing.T) {
	c := small()
	c.Leaders = 1
	one := run(t, c)
	assert.InDelta(t, 10_000, one.PodsPerSecond(), 200, "a cycle takes as long as a binding")
	c.Cycle = time.Millisecond
	slow := run(t, c)
	assert.InDelta(t, 1_000, slow.PodsPerSecond(), 20)
	c.Cycle, c.Binds = 100*time.Microsecond, 500
	api := run(t, c)
	assert.InDelta(t, 500, api.PodsPerSecond(), 5)
}

func TestLeadersThatShareNodesConflictWhenTheClusterIsFull(t *testing.T) {
	c := small()
	c.Pods = 1000
	full := run(t, c)
	assert.Positive(t, full.Refused)
	c.Pods = 300
	empty := run(t, c)
	assert.Zero(t, empty.Refused)
	c.Pods, c.Disjoint = 1000, true
	apart := run(t, c)
	assert.Positive(t, apart.Stranded, "the busiest leader has more pods than its nodes have room for")
}

func TestInvalidConfigurationsNameTheField(t *testing.T) {
	c := small()
	c.Sample = 0
	_, err := sim.Run(c)
	require.EqualError(t, err, "sample: 0, must be more than 0")
	c = small()
	c.Leaders = 101
	_, err = sim.Run(c)
	require.EqualError(t, err, "leaders: 101, there are only 100 nodes")
}

// TestShards simulates a cluster of 100,000 nodes and a million pods; `make bench-full` runs it.
func TestShards(t *testing.T) {
	depth := bench.Asked(t)
	if depth == bench.Gate {
		t.Skip("nothing in it is measured")
	}
	suite := bench.NewSuite("shards", "BERTH_BENCH=full go test -count=1 -v -run TestShards ./test/perf/sim")
	defer bench.Keep(t, suite)
	for _, capacity := range []int{20, 11} { // half full and nine tenths full
		for _, leaders := range []int{1, 2, 4, 8, 16} {
			for _, disjoint := range []bool{false, true} {
				if disjoint && leaders == 1 {
					continue
				}
				c := sim.Config{
					Leaders: leaders, Disjoint: disjoint, Nodes: 100_000, Capacity: capacity, Pods: 1_000_000, Workloads: 20_000,
					// What one scheduler takes of one core for a pod, bindings included, and what an API server on cores of its own makes.
					Cycle: 500 * time.Microsecond, Binds: 10_000, InFlight: 100, Lag: 100 * time.Millisecond, Backoff: time.Second, Sample: 32, Seed: 1,
				}
				nodes := map[bool]string{false: "all nodes", true: "nodes of their own"}[disjoint]
				name := fmt.Sprintf("full=%d%%/%s/leaders=%d", 1000/capacity, nodes, leaders)
				r, err := bench.Options{Rounds: 1, MaxForeign: 1}.Interleave(t.Context(), bench.Case{
					Name: name, At: map[string]float64{"leaders": float64(leaders), "capacity": float64(capacity)},
					Peers: []bench.Peer{{Name: nodes, Run: func(context.Context) (bench.Values, error) {
						o, err := sim.Run(c)
						return bench.Values{
							"pods_per_s": o.PodsPerSecond(), "refused_per_1000": 1000 * float64(o.Refused) / float64(c.Pods),
							"stranded": float64(o.Stranded), "utilisation_stddev_points": o.StdDev, "busiest_percent": 100 * o.Busiest,
						}, err
					}}},
				})
				require.NoError(t, err)
				suite.Add(r)
				t.Logf("%-44s %6.0f pods/s, %.2f refused per 1000, %d stranded, utilisation +- %.2f points, busiest leader %.0f %%", name, r.Median(nodes, "pods_per_s"),
					r.Median(nodes, "refused_per_1000"), int(r.Median(nodes, "stranded")), r.Median(nodes, "utilisation_stddev_points"), r.Median(nodes, "busiest_percent"))
			}
		}
	}
}
