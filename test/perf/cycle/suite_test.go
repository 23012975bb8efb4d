// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/perf/bench"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(envPeer); job != "" {
		if err := Serve(context.Background(), job, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// question is a case of the suite.
type question struct {
	name     string
	at       map[string]float64
	scenario Scenario
	peers    []string
	// gate are the peers that goals compare; none if the case is for the whole table only.
	gate []string
	// fresh has every turn made by a process of its own: where memory came to lie makes a tenth of a difference between
	// two processes that do the same, in all their turns.
	fresh bool
}

const (
	// A turn is this long at most, and places no more than so many pods.
	turnTime, gateTurnTime = 2 * time.Second, time.Second

	turnPods = 5_000
	// qualityRounds is how often a cluster is filled again: its evenness differs by some per cent from time to time.
	qualityRounds = 3
	// warmUp pods are placed before the first round: the first snapshot is a full one.
	warmUp = 200
)

var everybody = []string{Stock, HardSpread, SoftSpread, Affinity, FewNodes, Batching, Floor, Berth16, Berth32, Berth100, BerthAll, BerthBatching}

func questions() (list []question) {
	add := func(q question) { list = append(list, q) }
	pair := func(gate bool) []string {
		if gate {
			return []string{Stock, Berth16}
		}
		return nil
	}
	for _, nodes := range []int{500, 5_000, 15_000} {
		add(question{
			name: fmt.Sprintf("basic/nodes=%d", nodes), at: map[string]float64{"nodes": float64(nodes)},
			scenario: Scenario{Nodes: nodes, OnDemandPerMille: 200, Groups: 1}, peers: append([]string{Stock134, HardSpread134}, everybody...), gate: []string{Stock, HardSpread, FewNodes, Floor, Berth16, Berth100},
		})
	}
	// Where the scheduler batches: all pods are of one workload.
	for _, nodes := range []int{5_000, 15_000} {
		for name, ungoverned := range map[string]bool{"identical": false, "identical without a mix": true} {
			add(question{
				name: fmt.Sprintf("%s/nodes=%d", name, nodes), at: map[string]float64{"nodes": float64(nodes)},
				scenario: Scenario{Nodes: nodes, OnDemandPerMille: 200, Groups: 1, Ungoverned: ungoverned},
				peers:    []string{Batching, Stock, Berth16, BerthBatching}, gate: []string{Batching, BerthBatching}, fresh: ungoverned,
			})
		}
	}
	for _, order := range []string{"in turn", "in blocks"} {
		for _, groups := range []int{1, 10, 100, 1000} {
			add(question{
				name: fmt.Sprintf("groups/%s/groups=%d", order, groups), at: map[string]float64{"groups": float64(groups)},
				scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: groups, Block: order == "in blocks"},
				peers:    []string{Stock, HardSpread, Berth16}, gate: pair(groups != 10 && groups != 100 && order == "in turn"),
			})
		}
	}
	for _, existing := range []int{10_000, 50_000, 100_000} {
		add(question{
			name: fmt.Sprintf("filled/existing=%d", existing), at: map[string]float64{"existing": float64(existing)},
			scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 100, Existing: existing},
			peers:    []string{Stock, HardSpread, Berth16}, gate: pair(existing != 50_000),
		})
	}
	add(question{name: "scarce side", scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 10, Groups: 100}, peers: []string{Stock, HardSpread, Affinity, Berth16}})
	add(question{name: "full side", scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 100, Full: true}, peers: []string{Stock, HardSpread, Berth16}})
	add(question{
		name: "pods without a mix", scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 100, Ungoverned: true},
		peers: []string{Stock, Berth16}, gate: pair(true), fresh: true,
	})
	for _, nodes := range []int{500, 5_000, 15_000} {
		add(question{
			name: fmt.Sprintf("replicated/nodes=%d", nodes), at: map[string]float64{"nodes": float64(nodes)},
			scenario: Scenario{Nodes: nodes, OnDemandPerMille: 200, Groups: 100, Existing: 2 * nodes, Replicated: true},
			peers:    []string{Stock, HardSpread, FewNodes, Berth16, Berth32}, gate: pair(nodes == 5_000),
		})
	}
	// A policy scores all feasible nodes that the scheduler finds, as many as the stock scheduler finds and scores.
	for _, preset := range []v1alpha1.ScorePreset{v1alpha1.ScorePresetBalanced, v1alpha1.ScorePresetPack, v1alpha1.ScorePresetSpread} {
		add(question{
			name: "policy/" + string(preset), peers: []string{Stock, Berth16, BerthPolicy}, gate: []string{Stock, BerthPolicy},
			scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 100, Ungoverned: true, Replicated: true, Existing: 10_000, Policy: preset},
		})
		add(question{
			name: "policy with a mix/" + string(preset), peers: []string{Stock, Berth16, BerthPolicy}, gate: []string{Berth16, BerthPolicy},
			scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 100, Policy: preset},
		})
	}
	// One group over all owners, beside a group for each.
	add(question{
		name: "selector", scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 1000},
		peers: []string{Berth16, BerthSelector}, gate: []string{Berth16, BerthSelector}, fresh: true,
	})
	// What the plugins cost where there are no objects of their kind.
	for name, without := range map[string]string{"no policies": BerthNoPolicies, "no reservations": BerthNoReservations} {
		add(question{
			name: name, scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 100},
			peers: []string{Berth16, without}, gate: []string{Berth16, without}, fresh: true,
		})
	}
	add(question{name: "with resource limits", scenario: Scenario{Nodes: 5_000, OnDemandPerMille: 200, Groups: 100, Limits: 1000}, peers: []string{Stock, Berth16}})
	return list
}

// TestCycles measures; `make bench` and `make bench-full` run it.
func TestCycles(t *testing.T) {
	depth := bench.Asked(t)
	suite := bench.NewSuite("cycle", "BERTH_BENCH="+string(depth)+" go test -count=1 -timeout 2h -v -run TestCycles ./test/perf/cycle")
	defer bench.Keep(t, suite)
	for _, q := range questions() {
		turn := turnTime
		if depth == bench.Gate {
			turn, q.peers = gateTurnTime, q.gate
		}
		if len(q.peers) == 0 || !bench.Chosen(t, q.name) {
			continue
		}
		o := depth.Options(t)
		o.Rounds = bench.Rounds(t, o.Rounds)
		r, err := measure(t.Context(), o, q, turn)
		require.NoError(t, err)
		suite.Add(r)
		for _, p := range r.Peers() {
			t.Logf("%-32s %-10s %8.0f us/pod  %6.2f x P0  %7.0f allocs  %6.0f pods", q.name, p, r.Median(p, "cpu_us_per_pod"), r.Ratio(p, Stock, "cpu_us_per_pod"), r.Median(p, "allocs_per_pod"), r.Median(p, "pods"))
		}
	}
}

// measure starts a process for every peer and gives each its turns.
func measure(ctx context.Context, o bench.Options, q question, turn time.Duration) (bench.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q.scenario.Pods = warmUp + (o.Rounds+o.Repeats)*turnPods
	c := bench.Case{Name: q.name, At: q.at, Settings: map[string]string{
		"parallelism": "16", "log level": "0", "percentageOfNodesToScore": "default (P5: 100 nodes or 1 %)", "GOGC": "100",
	}}
	for _, peer := range q.peers {
		var kept *Process
		start := func(ctx context.Context) (*Process, error) {
			p, err := Start(ctx, peer, q.scenario)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", q.name, peer, err)
			}
			_, err = p.Turn(warmUp, time.Minute)
			return p, err
		}
		if !q.fresh {
			var err error
			if kept, err = start(ctx); err != nil {
				return bench.Result{}, err
			}
			defer func() { _ = kept.Stop() }()
		}
		c.Peers = append(c.Peers, bench.Peer{Name: peer, Run: func(ctx context.Context) (bench.Values, error) {
			if kept != nil {
				return values(kept, turn)
			}
			p, err := start(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { _ = p.Stop() }()
			return values(p, turn)
		}})
	}
	if q.fresh {
		o.Rounds = max(o.Rounds, 5)
	}
	return o.Interleave(ctx, c)
}

// values are what a turn of a process measured.
func values(p *Process, turn time.Duration) (bench.Values, error) {
	v, err := p.Turn(turnPods, turn)
	if err != nil {
		return nil, err
	}
	good, err := p.Quality()
	if err != nil {
		return nil, err
	}
	if e, ok := good["mix_error_pods"]; ok {
		v["mix_error_pods"] = e
	}
	v["peak_bytes"], err = p.Peak()
	return v, err
}

// TestQuality fills clusters and compares where the pods came to be.
func TestQuality(t *testing.T) {
	depth := bench.Asked(t)
	suite := bench.NewSuite("quality", "BERTH_BENCH="+string(depth)+" go test -count=1 -timeout 2h -v -run TestQuality ./test/perf/cycle")
	defer bench.Keep(t, suite)
	for _, size := range []struct{ nodes, pods int }{{500, 5_000}, {5_000, 20_000}} {
		if depth == bench.Gate && size.nodes > 500 {
			continue
		}
		for _, replicated := range []bool{false, true} {
			if replicated && size.nodes > 500 {
				continue // the stock scheduler alone takes half an hour
			}
			owners := map[bool]string{false: "Jobs", true: "ReplicaSets"}[replicated]
			rounds := qualityRounds
			if size.nodes > 500 { // many nodes are their own mean
				rounds = 1
			}
			peers := []string{Stock, Berth16}
			if depth == bench.Full {
				peers = append(peers, Berth32, Berth100, FewNodes)
			}
			r, err := place(t.Context(), fmt.Sprintf("%s/nodes=%d/pods=%d", owners, size.nodes, size.pods), Scenario{
				Nodes: size.nodes, OnDemandPerMille: 200, Groups: 100, Pods: size.pods, Varied: true, Replicated: replicated,
			}, peers, rounds)
			require.NoError(t, err)
			suite.Add(r)
			for _, p := range r.Peers() {
				t.Logf("%-36s %-10s mix error %3.0f pods, utilisation +- %.2f points, worst domain %.1f %%", r.Name, p,
					r.Median(p, "mix_error_pods"), r.Median(p, "utilisation_stddev_points"), r.Median(p, "worst_domain_percent"))
			}
		}
	}
}

// place has some peers place all pods of a scenario, from the first to the last.
func place(ctx context.Context, name string, s Scenario, peers []string, rounds int) (bench.Result, error) {
	c := bench.Case{Name: name, At: map[string]float64{"nodes": float64(s.Nodes), "pods": float64(s.Pods)}}
	for _, peer := range peers {
		c.Peers = append(c.Peers, bench.Peer{Name: peer, Run: func(ctx context.Context) (bench.Values, error) {
			p, err := Start(ctx, peer, s)
			if err != nil {
				return nil, err
			}
			defer func() { _ = p.Stop() }()
			if _, err := p.Turn(s.Pods, time.Hour); err != nil {
				return nil, err
			}
			return p.Quality()
		}})
	}
	return bench.Options{Rounds: rounds, MaxForeign: 1}.Interleave(ctx, c) // it is not about time
}
