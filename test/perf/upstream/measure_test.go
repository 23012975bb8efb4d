// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/perf/bench"
)

// The environment variables beside those that bench reads: a regular expression
// for the names of the cases, and one for the peers. A case that is selected by
// name is measured whatever the depth. If a number of rounds is set, none
// of them is thrown away: on a machine that others use it would never end.
const (
	envCases  = "BERTH_BENCH_CASES"
	envPeers  = "BERTH_BENCH_PEERS"
	envRounds = "BERTH_BENCH_ROUNDS"
)

// TestMeasure runs the peers in turn and keeps what was measured.
func TestMeasure(t *testing.T) {
	depth := bench.Asked(t)
	r := newRunner(t)
	suite := bench.NewSuite("upstream", "make bench-upstream")
	options := depth.Options(t)
	for _, w := range chosen(t, depth) {
		o := options
		o.Rounds, o.Repeats = min(o.Rounds, w.rounds), min(o.Repeats, w.rounds)
		if text, ok := os.LookupEnv(envRounds); ok {
			rounds, err := strconv.Atoi(text)
			require.NoError(t, err, envRounds)
			o.Rounds, o.Repeats = rounds, 0
		}
		result, err := o.Interleave(t.Context(), r.question(t, w))
		if len(result.Rounds) > 0 {
			suite.Add(result)
			bench.Keep(t, suite)
		}
		if assert.NoError(t, err) { // the other cases are independent
			report(t, &result)
		}
	}
}

// chosen are the workloads of a depth, or those that were selected.
func chosen(t *testing.T, depth bench.Depth) (list []workload) {
	t.Helper()
	cases, named := os.LookupEnv(envCases)
	matches := regexp.MustCompile(cases).MatchString
	only := regexp.MustCompile(os.Getenv(envPeers)).MatchString
	for _, w := range workloads {
		if named && !matches(w.name) || !named && depth == bench.Gate && !w.gate || !named && !w.full {
			continue
		}
		var by []string
		for _, p := range w.peers {
			if only(p) {
				by = append(by, p)
			}
		}
		w.peers = by
		list = append(list, w)
	}
	require.NotEmpty(t, list, "%s=%s names no case", envCases, cases)
	return list
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	repository, err := cluster.RepoRoot()
	require.NoError(t, err)
	module, err := os.Getwd()
	require.NoError(t, err)
	etcd, err := cluster.Binary(t.Context(), os.Stderr, cluster.Etcd)
	require.NoError(t, err)
	// What the disk takes to write through is no property of a scheduler.
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" --unsafe-no-fsync\n", etcd)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etcd"), []byte(script), 0o700))
	plugins, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins").Output()
	require.NoError(t, err)
	modules, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	gangs := filepath.Join(strings.TrimSpace(string(plugins)), "manifests", "coscheduling", "crd.yaml")
	return &runner{module: module, repository: repository, etcd: dir, gangs: gangs, modules: strings.TrimSpace(string(modules))}
}

func (r *runner) question(t *testing.T, w workload) bench.Case {
	t.Helper()
	c := bench.Case{Name: w.name, At: w.at, Settings: map[string]string{
		"workload":                 w.test + "/" + w.size,
		"client":                   "QPS 5000, burst 5000 (fixed by scheduler_perf)",
		"log":                      "-v=2, to a file",
		"parallelism":              "16",
		"percentageOfNodesToScore": "default",
		"nodes":                    "20 % on-demand, 3 zones, 4 instance types",
		"mix":                      fmt.Sprintf("%d %% spot", spotPercent),
		"etcd":                     "--unsafe-no-fsync",
		"GOMAXPROCS":               fmt.Sprint(runtime.GOMAXPROCS(0)),
		"process":                  "API server, scheduler and the driver in one: CPU and memory are of all three",
	}}
	for _, name := range w.peers {
		c.Peers = append(c.Peers, bench.Peer{Name: name, Run: func(ctx context.Context) (bench.Values, error) {
			v, err := r.run(ctx, w, name)
			if err == nil {
				t.Logf("%s %-9s %6.0f pods/s, %5.2f ms CPU/pod, attempt p99 %.0f ms, algorithm %.2f ms, %.3f writes/pod, mix error %v, %v in order of binding, %v of slots; %.0f s",
					w.name, name, v["pods_per_s"], v["cpu_ms_per_pod"], v["attempt_p99_ms"], v["algorithm_mean_ms"], v["api_writes_per_pod"],
					shown(v, "mix_error_pods"), shown(v, "mix_error_prefix_pods"), shown(v, "mix_error_slots_pods"), v["run_s"])
			}
			return v, err
		}})
	}
	return c
}

func shown(v bench.Values, name string) string {
	if x, ok := v[name]; ok {
		return fmt.Sprintf("%.0f", x)
	}
	return "-"
}

// report prints the medians, and the ratios to the first peer, which is P0 where it takes part.
func report(t *testing.T, r *bench.Result) {
	t.Helper()
	names := r.Peers()
	last := r.Rounds[len(r.Rounds)-1]
	t.Logf("%s: %d rounds, %d thrown away, load %.1f, others took %.0f %%", r.Name, len(r.Rounds), r.Discarded, last.Load, 100*last.Foreign)
	for _, p := range names {
		t.Logf("  %-9s %6.0f pods/s (%.2f of %s), %.2f ms CPU/pod (%.2f)", p, r.Median(p, "pods_per_s"), r.Ratio(p, names[0], "pods_per_s"), names[0],
			r.Median(p, "cpu_ms_per_pod"), r.Ratio(p, names[0], "cpu_ms_per_pod"))
	}
}
