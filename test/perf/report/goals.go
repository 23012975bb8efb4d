// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"berth.dev/berth/test/perf/bench"
)

// goal is a promise about what was measured.
type goal struct {
	what  string
	suite string
	// value takes the figure from a suite, NaN if it was not measured.
	value func(s *bench.Suite) float64
	// limit that the value must not exceed; with atLeast, not fall below.
	limit   float64
	atLeast bool
	unit    string
}

type verdict struct {
	goal
	got           float64
	measured, met bool
}

// berth is the peer that goals are about: the smallest sample.
const berth = "berth-16"

// ratio of Berth to a peer in one case.
func ratio(name, peer, metric string) func(*bench.Suite) float64 {
	return ratioOf(name, berth, peer, metric)
}

func ratioOf(name, who, peer, metric string) func(*bench.Suite) float64 {
	return func(s *bench.Suite) float64 {
		if r := s.Result(name); r != nil {
			return r.Ratio(who, peer, metric)
		}
		return math.NaN()
	}
}

// growth of a peer's median from one case to another.
func growth(from, to, metric string) func(*bench.Suite) float64 {
	return func(s *bench.Suite) float64 {
		a, b := s.Result(from), s.Result(to)
		if a == nil || b == nil {
			return math.NaN()
		}
		return b.Median(berth, metric) / a.Median(berth, metric)
	}
}

func median(name, peer, metric string) func(*bench.Suite) float64 {
	return func(s *bench.Suite) float64 {
		if r := s.Result(name); r != nil {
			return r.Median(peer, metric)
		}
		return math.NaN()
	}
}

// worst of a metric over all cases and rounds of the peers that are Berth.
func worst(metric string) func(*bench.Suite) float64 {
	return func(s *bench.Suite) float64 {
		most := math.NaN()
		for i := range s.Results {
			for _, peer := range []string{"berth-16", "berth-32", "berth-100", "berth-all"} {
				for _, v := range s.Results[i].Of(peer, metric) {
					if math.IsNaN(most) || v > most {
						most = v
					}
				}
			}
		}
		return most
	}
}

func less(of, than func(*bench.Suite) float64) func(*bench.Suite) float64 {
	return func(s *bench.Suite) float64 { return of(s) - than(s) }
}

const (
	cpu      = "cpu_us_per_pod"
	upstream = "basic/nodes=5000/pods=10000"
	drain    = "drain/nodes=5000,pods=10000"
)

// goals are those of issue 6.
func goals() []goal {
	c := func(what string, limit float64, v func(*bench.Suite) float64) goal {
		return goal{what: what, suite: "cycle", value: v, limit: limit, unit: "x"}
	}
	even := func(what, name, peer string) goal {
		return goal{what: what, suite: "quality", value: ratioOf(name, peer, "P0", "utilisation_stddev_points"), limit: 1.05, unit: "x"}
	}
	return []goal{
		c("cycle CPU against hard topology spread (P1), 5,000 nodes", 0.04, ratio("basic/nodes=5000", "P1", cpu)),
		c("the same, 15,000 nodes", 0.02, ratio("basic/nodes=15000", "P1", cpu)),
		c("against kube-scheduler with no ratio at all (P0), 5,000 nodes", 0.10, ratio("basic/nodes=5000", "P0", cpu)),
		c("the same, 15,000 nodes", 0.08, ratio("basic/nodes=15000", "P0", cpu)),
		c("sample of 100 against kube-scheduler with 100 nodes (P5), 5,000 nodes", 1.02, ratioOf("basic/nodes=5000", "berth-100", "P5", cpu)),
		c("the same, 15,000 nodes", 0.8, ratioOf("basic/nodes=15000", "berth-100", "P5", cpu)),
		c("against the floor (L1), 5,000 nodes", 5, ratio("basic/nodes=5000", "L1", cpu)),
		c("growth from 500 to 15,000 nodes", 1.25, growth("basic/nodes=500", "basic/nodes=15000", cpu)),
		c("growth from 1 to 1,000 groups", 1.1, growth("groups/in turn/groups=1", "groups/in turn/groups=1000", cpu)),
		c("growth from 10,000 to 100,000 existing pods", 1.1, growth("filled/existing=10000", "filled/existing=100000", cpu)),
		c("pods of ReplicaSets, against P0, 5,000 nodes and 10,000 pods", 0.10, ratio("replicated/nodes=5000", "P0", cpu)),
		c("pods without a mix, against P0, CPU", 1.02, ratio("pods without a mix", "P0", cpu)),
		{what: "pods without a mix, more allocations than P0", suite: "cycle", value: less(median("pods without a mix", berth, "allocs_per_pod"), median("pods without a mix", "P0", "allocs_per_pod")), limit: 0.5, unit: "allocations"},
		{what: "mix error at any prefix, all cycles", suite: "cycle", value: worst("mix_error_pods"), limit: 0, unit: "pods"},
		{what: "mix error at any prefix, filled clusters", suite: "quality", value: worst("mix_error_pods"), limit: 0, unit: "pods"},
		even("evenness: standard deviation of utilisation against P0, 500 nodes", "Jobs/nodes=500/pods=5000", berth),
		even("the same, pods of ReplicaSets", "ReplicaSets/nodes=500/pods=5000", berth),
		even("the same, Jobs, 5,000 nodes", "Jobs/nodes=5000/pods=20000", berth),
		even("the same, Jobs, 500 nodes, with the default sample of 32", "Jobs/nodes=500/pods=5000", "berth-32"),
		{what: "end to end, pods a second against P0", suite: "drain", value: ratio(drain, "P0", "pods_per_s"), limit: 1.15, atLeast: true, unit: "x"},
		{what: "end to end, pods a second against P1", suite: "drain", value: ratio(drain, "P1", "pods_per_s"), limit: 3, atLeast: true, unit: "x"},
		{what: "end to end, against the floor of the API server (L2)", suite: "drain", value: ratio(drain, "L2", "pods_per_s"), limit: 0.85, atLeast: true, unit: "x"},
		{what: "peak memory of the scheduler, more than 1.05 x P0", suite: "drain", value: func(s *bench.Suite) float64 {
			r := s.Result(drain)
			if r == nil {
				return math.NaN()
			}
			return (r.Median(berth, "peak_rss_bytes") - 1.05*r.Median("P0", "peak_rss_bytes")) / 1e6
		}, limit: 20, unit: "MB"},
		{what: "API writes for each pod, against P0", suite: "drain", value: ratio(drain, "P0", "api_writes_per_pod"), limit: 1.0005, unit: "x"},
		{what: "mix error at any prefix of what was decided, end to end", suite: "drain", value: worst("mix_error_decided_pods"), limit: 0, unit: "pods"},
		{what: "mix error in the end", suite: "drain", value: worst("mix_error_end_pods"), limit: 0, unit: "pods"},
		{what: "scheduler_perf, pods a second against P0", suite: "upstream", value: ratio(upstream, "P0", "pods_per_s"), limit: 1.15, atLeast: true, unit: "x"},
		{what: "scheduler_perf, pods a second against P1", suite: "upstream", value: ratio(upstream, "P1", "pods_per_s"), limit: 3, atLeast: true, unit: "x"},
	}
}

// judge compares what was measured with the goals.
func judge(suites map[string]*bench.Suite) []verdict {
	var list []verdict
	for _, g := range goals() {
		v := verdict{goal: g, got: math.NaN()}
		if s := suites[g.suite]; s != nil {
			v.got = g.value(s)
		}
		v.measured = !math.IsNaN(v.got)
		v.met = v.measured && (v.got <= g.limit && !g.atLeast || v.got >= g.limit && g.atLeast)
		list = append(list, v)
	}
	return list
}
