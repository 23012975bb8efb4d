// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"slices"
)

// spotPercent is the mix that all peers are to keep. One node in five of
// config/templates/node.yaml is on-demand.
const spotPercent = 80

// peer is a way to place pods.
type peer struct {
	// profile is the scheduler's configuration, of config/profiles, "" for the
	// one that Berth ships; pod is the template of the pods that are measured,
	// of config/pods.
	profile, pod string
	// sample is the nodeSampleSize where it is Berth that places the pods, 0 for all others.
	sample int
	// gangs: the pods belong to PodGroups.
	gangs bool
	// leaves are goroutines that its plugins are known to leave behind, as the
	// function on top of their stack: scheduler_perf fails a run for it, after it.
	leaves string
}

var peers = map[string]peer{
	// The stock scheduler, without any ratio.
	"P0": {profile: "stock", pod: "plain"},
	// Hard topology spread over a label with as many values as the ratio requests.
	"P1": {profile: "stock", pod: "spread-hard"},
	// The same as a wish.
	"P2": {profile: "stock", pod: "spread-soft"},
	// Required node affinity, written by whoever creates the pods.
	"P3": {profile: "stock", pod: "affinity"},
	// Coscheduling of scheduler-plugins: another plugin that keeps state of groups.
	"P4":        {profile: "coscheduling", pod: "gang", gangs: true, leaves: "go-cache.(*janitor).Run on top"},
	"berth-16":  {pod: "plain", sample: 16},
	"berth-100": {pod: "plain", sample: 100},
}

// workload is one that config/performance-config.yaml has.
type workload struct {
	// name of the case in the results.
	name string
	// test and size are the names in the configuration.
	test, size string
	// at is its place on the curves.
	at map[string]float64
	// mixes are the prefixes of the namespaces that have a CapacityMix where
	// Berth is measured, with how many there are. None: Berth is there, and unused.
	mixes map[string]int
	// replaces: pods are deleted on the way, so the order of the bindings shows nothing about the mix.
	replaces bool
	peers    []string
	// gate: it is run with every change; full: it belongs to the whole table.
	// What is neither has to be selected by name.
	gate, full bool
	rounds     int
}

var (
	compared = []string{"P0", "P1", "berth-16"}
	others   = []string{"P0", "P2", "P3", "P4", "berth-100"}
	unused   = []string{"P0", "berth-16"}
)

// groups are as many namespaces with a mix each.
func groups(n int) map[string]int { return map[string]int{"group": n} }

func at(nodes, groups, pods float64) map[string]float64 {
	return map[string]float64{"nodes": nodes, "groups": groups, "pods": pods}
}

// workloads are in the order of their importance. The whole table is
// to be had in an hour at most, so it has most of them on few nodes only:
// BERTH_BENCH_CASES=nodes=5000 has them all on many.
var workloads = slices.Concat(
	[]workload{
		{
			name: "basic/nodes=500/pods=2000", test: "RatioBasic", size: "500Nodes_2000Pods", at: at(500, 1, 2000), mixes: groups(1),
			peers: compared, gate: true, full: true, rounds: 3,
		},
		{
			name: "basic/nodes=5000/pods=10000", test: "RatioBasic", size: "5000Nodes_10000Pods", at: at(5000, 1, 10000), mixes: groups(1),
			peers: compared, full: true, rounds: 5,
		},
		{
			name: "basic-others/nodes=500/pods=2000", test: "RatioBasic", size: "500Nodes_2000Pods", at: at(500, 1, 2000), mixes: groups(1),
			peers: others, full: true, rounds: 1,
		},
		{
			name: "basic-others/nodes=5000/pods=10000", test: "RatioBasic", size: "5000Nodes_10000Pods", at: at(5000, 1, 10000),
			mixes: groups(1), peers: others, rounds: 1,
		},
		{
			name: "many-groups/nodes=500/groups=100/pods=1000", test: "RatioManyGroups", size: "500Nodes_100Groups_1000Pods",
			at: at(500, 100, 1000), mixes: groups(100), peers: compared, full: true, rounds: 1,
		},
		{
			name: "many-groups/nodes=5000/groups=1000/pods=10000", test: "RatioManyGroups", size: "5000Nodes_1000Groups_10000Pods",
			at: at(5000, 1000, 10000), mixes: groups(1000), peers: compared, rounds: 1,
		},
	},
	bothSizes(workload{name: "mixed", test: "RatioMixed", mixes: groups(1), peers: compared}, 1000, 5000),
	bothSizes(workload{name: "churn", test: "RatioChurn", mixes: groups(1), peers: compared}, 1000, 10000),
	bothSizes(workload{name: "unschedulable", test: "RatioUnschedulable", mixes: map[string]int{"group": 1, "stuck": 1}, peers: compared},
		1000, 5000),
	[]workload{
		{
			name: "steady-state/nodes=500", test: "RatioSteadyState", size: "500Nodes_10s", at: map[string]float64{"nodes": 500},
			mixes: groups(1), replaces: true, peers: compared, full: true, rounds: 1,
		},
		{
			name: "steady-state/nodes=5000", test: "RatioSteadyState", size: "5000Nodes_30s", at: map[string]float64{"nodes": 5000},
			mixes: groups(1), replaces: true, peers: compared, rounds: 1,
		},
	},
	bothSizes(workload{name: "unused-basic", test: "SchedulingBasic", peers: unused}, 1000, 5000),
	bothSizes(workload{name: "unused-topology-spreading", test: "TopologySpreading", peers: unused}, 1000, 5000),
	bothSizes(workload{name: "unused-preferred-topology-spreading", test: "PreferredTopologySpreading", peers: unused}, 1000, 5000),
	bothSizes(workload{name: "unused-mixed-base-pod", test: "MixedSchedulingBasePod", peers: unused}, 1000, 5000),
	bothSizes(workload{name: "unused-pod-anti-affinity", test: "SchedulingPodAntiAffinity", peers: unused}, 200, 2000),
)

// bothSizes are a workload on 500 nodes, which the whole table has, and on 5,000.
func bothSizes(w workload, few, many int) []workload {
	size := func(nodes, pods int) workload {
		sized := w
		sized.name = fmt.Sprintf("%s/nodes=%d/pods=%d", w.name, nodes, pods)
		sized.size = fmt.Sprintf("%dNodes_%dPods", nodes, pods)
		sized.at, sized.rounds = at(float64(nodes), 1, float64(pods)), 1
		return sized
	}
	small, large := size(500, few), size(5000, many)
	small.full = true
	return []workload{small, large}
}
