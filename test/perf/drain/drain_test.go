// SPDX-License-Identifier: Apache-2.0

// Package drain_test measures schedulers as processes of their own against a
// real API server: pods wait already when the scheduler starts, and the time
// from its first binding to its last counts. What creates pods and runs nodes
// has no part in it.
package drain_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/perf/bench"
)

// What else is measured than the goals are of, from the environment.
const (
	// envSize is NODESxPODS, to try the suite on less.
	envSize = "BERTH_BENCH_SIZE"
	// envBinary is a berth-scheduler to measure in place of that of this tree, to compare two of them.
	envBinary = "BERTH_BENCH_SCHEDULER"
)

const command = "make bench-drain"

// full is the size that the goals are of.
var full = size{nodes: 5_000, pods: 10_000}

// admitted is how many pods the second case has: it counts their creation.
const admitted = 2_000

func TestDrain(t *testing.T) {
	depth := bench.Asked(t)
	if depth != bench.Full {
		t.Skip("it takes minutes: " + command)
	}
	ctx := t.Context()
	s := sizeAsked(t)
	p := startPlane(ctx, t)
	owners := p.fill(ctx, s)
	p.keep("empty")
	programs := p.schedulers(ctx)
	suite := bench.NewSuite("drain", command)
	t.Cleanup(func() { bench.Keep(t, suite) })

	states := map[string]shape{"plain": plain, "spread": spread, "split": typed}
	made := map[string]bool{}
	turn := func(state string, start starter) func(context.Context) (bench.Values, error) {
		return func(ctx context.Context) (bench.Values, error) {
			if !made[state] { // in the first round, before anything is measured
				p.restore(ctx, "empty")
				p.createPods(ctx, s, owners, states[state])
				p.keep(state)
				made[state] = true
			}
			p.restore(ctx, state)
			return p.drained(ctx, s, start), nil
		}
	}
	p0 := bench.Peer{Name: "P0", Run: turn("plain", programs.stock)}
	berth16 := bench.Peer{Name: "berth-16", Run: turn("plain", programs.berth(16))}
	at := map[string]float64{"nodes": float64(s.nodes), "pods": float64(s.pods), "groups": float64(s.groups())}
	cases := []struct {
		bench.Case
		rounds int
	}{
		{rounds: 5, Case: bench.Case{Name: fmt.Sprintf("drain/nodes=%d,pods=%d", s.nodes, s.pods), Peers: []bench.Peer{
			berth16, p0, {Name: "L2", Run: turn("plain", p.floor(floorWorkers))}, {Name: "P1", Run: turn("spread", programs.stock)},
		}}},
		{rounds: 2, Case: bench.Case{Name: fmt.Sprintf("more/nodes=%d,pods=%d", s.nodes, s.pods), Peers: []bench.Peer{
			p0,
			{Name: "P0-list", Run: turn("plain", programs.stockUnspread)},
			{Name: "P3", Run: turn("split", programs.stock)},
			{Name: "berth-100", Run: turn("plain", programs.berth(100))},
			{Name: "L2-16", Run: turn("plain", p.floor(16))},
			{Name: "L2-256", Run: turn("plain", p.floor(256))},
		}}},
		{rounds: 3, Case: p.admissionCase(size{s.nodes, min(admitted, s.pods)}, owners, programs)},
	}
	for _, c := range cases {
		if c.At == nil {
			c.At = at
		}
		c.Settings = settings()
		o := depth.Options(t)
		// A turn takes half a minute: only one disturbed round is repeated.
		o.Rounds, o.Repeats = bench.Rounds(t, c.rounds), min(o.Repeats, 1)
		if c.Peers = chosen(t, c.Name, c.Peers); len(c.Peers) == 0 {
			continue
		}
		r, err := o.Interleave(ctx, announced(t, c.Case))
		require.NoError(t, err)
		suite.Add(r)
		report(t, &r)
	}
}

func settings() map[string]string {
	return map[string]string{
		"client": fmt.Sprintf("qps %d, burst %d, protobuf", qps, qps), "parallelism": strconv.Itoa(parallelism), "verbosity": "0",
		"percentageOfNodesToScore": "default", "leaderElection": "off", "user": "the same for all", "mix": rule.String(),
		"groups": fmt.Sprintf("of %d pods", groupSize), "control plane": "kube-apiserver and etcd (no fsync), fresh for every turn",
		"audit": "metadata of the scheduler's writes", "L2": fmt.Sprintf("%d workers in the test's process", floorWorkers),
		"programs": "without the race detector, tags grpcnotrace",
	}
}

// sizeAsked is the full size unless the environment requests another.
func sizeAsked(t *testing.T) size {
	t.Helper()
	s := full
	if asked := os.Getenv(envSize); asked != "" {
		_, err := fmt.Sscanf(asked, "%dx%d", &s.nodes, &s.pods)
		require.NoError(t, err, "%s=%s must be NODESxPODS", envSize, asked)
		require.True(t, s.nodes >= 5 && s.pods >= 1, "%s=%s", envSize, asked)
	}
	return s
}

// chosen are the peers of a case that the environment requests.
func chosen(t *testing.T, name string, peers []bench.Peer) []bench.Peer {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(peers), func(p bench.Peer) bool { return !bench.Chosen(t, name+"/"+p.Name) })
}

// announced logs what each turn measured, so that a run that ends early has some results.
func announced(t *testing.T, c bench.Case) bench.Case {
	for i := range c.Peers {
		name, run := c.Peers[i].Name, c.Peers[i].Run
		c.Peers[i].Run = func(ctx context.Context) (bench.Values, error) {
			v, err := run(ctx)
			t.Logf("%s %s: %.0f pods/s, %.2f ms of the scheduler and %.2f ms of the API server for each pod, %.0f MiB, mix off by %v",
				c.Name, name, v["pods_per_s"], v["cpu_ms_per_pod"], v["api_cpu_ms_per_pod"], v["peak_rss_bytes"]/(1<<20), v["mix_error_pods"])
			return v, err
		}
	}
	return c
}

// report logs the medians of all that was measured.
func report(t *testing.T, r *bench.Result) {
	for _, peer := range r.Peers() {
		var metrics []string
		for name := range r.Rounds[0].Peers[peer] {
			metrics = append(metrics, name)
		}
		slices.Sort(metrics)
		line := ""
		for _, m := range metrics {
			line += fmt.Sprintf(" %s=%.4g", m, r.Median(peer, m))
		}
		t.Logf("%s %s:%s", r.Name, peer, line)
	}
	for i, round := range r.Rounds {
		t.Logf("round %d: load %.1f, others %.0f %%, disturbed %t", i+1, round.Load, 100*round.Foreign, round.Disturbed)
	}
}
