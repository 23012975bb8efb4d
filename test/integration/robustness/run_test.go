// SPDX-License-Identifier: Apache-2.0

// Package robustness_test runs random traffic and random faults from a seed, records each revision from etcd, and has the validators of
// test/robustness judge the history.
package robustness_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

const (
	// envSeeds are the seeds of the runs, separated by commas, and envSteps the number of steps of each.
	envSeeds = "BERTH_SEEDS"
	envSteps = "BERTH_STEPS"
	// steps is their number in make test. settle bounds the time until all mixes are exact after the last fault.
	steps  = 30
	settle = 4 * time.Minute
	// A run in which less happened than this is no run.
	fewestOperations, fewestFaults, fewestBindings = 10, 4, 50
)

// seeds are those of make test: one run each.
var seeds = []uint64{1}

func TestPromisesHoldUnderRandomTrafficAndFaults(t *testing.T) {
	n := steps
	if text := os.Getenv(envSteps); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err, envSteps)
	}
	if text := os.Getenv(envSeeds); text != "" {
		seeds = nil
		for one := range strings.SplitSeq(text, ",") {
			seed, err := strconv.ParseUint(one, 10, 64)
			require.NoError(t, err, envSeeds)
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := run(t, seed, n)
			require.GreaterOrEqual(t, len(h.Operations), fewestOperations*n/steps, "operations")
			require.GreaterOrEqual(t, len(h.Faults), fewestFaults*n/steps, "faults")
			for _, v := range judgeAll(h) {
				t.Log(v)
				assert.GreaterOrEqual(t, v.Facts, fewestBindings, v.Promise)
				assert.Empty(t, v.Violations, v.Promise)
			}
			if t.Failed() {
				t.Logf("the history is in %s; make repro SEED=%d STEPS=%d repeats the steps", keep(t, h), seed, n)
			}
		})
	}
}

func judgeAll(h *history.History) (all []*judge.Verdict) {
	for _, validator := range judge.Validators {
		all = append(all, validator(h))
	}
	return all
}

// run takes the steps of a seed, waits until all mixes are exact, and returns what happened.
func run(t *testing.T, seed uint64, n int) *history.History {
	t.Helper()
	// Each type can run all replicas.
	w := testenv.New(t, append(cluster.Nodes("spot", nodesOfType, small), cluster.Nodes("on-demand", nodesOfType, small)...)...)
	recorder, err := history.NewRecorder(w.Ctx, w.Cluster.EtcdURL())
	require.NoError(t, err)
	r := &runner{World: w, random: rand.New(rand.NewPCG(seed, 0))}
	r.begin()
	for range n {
		r.step()
	}
	r.settle()
	changes, err := recorder.Close(w.Ctx)
	require.NoError(t, err)
	return &history.History{Run: history.Run{Seed: seed, Operations: r.operations, Faults: r.faults}, Changes: changes}
}

// small nodes take a few pods: bindings compete for the last CPU.
func small(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" }

// keep writes a history that was judged to be bad.
func keep(t *testing.T, h *history.History) string {
	t.Helper()
	path := testenv.Path(filepath.Join("out", "robustness", fmt.Sprintf("seed-%d.jsonl", h.Seed)))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, h.Write(f))
	require.NoError(t, f.Close())
	return path
}

// A scheduler that does not look at resources is caught: by the record of etcd, and by this validator alone.
func TestASchedulerThatOvercommitsIsCaught(t *testing.T) {
	w := testenv.New(t, append(cluster.Nodes("spot", 1, small), cluster.Nodes("on-demand", 1, small)...)...)
	recorder, err := history.NewRecorder(w.Ctx, w.Cluster.EtcdURL())
	require.NoError(t, err)
	w.RunScheduler(w.Variant(testenv.SecondScheduler, func(c testenv.Config) {
		for _, profile := range c.Profiles() {
			plugins, ok := profile["plugins"].(map[string]any)
			require.True(t, ok)
			plugins["filter"] = map[string]any{"disabled": []any{map[string]any{"name": "NodeResourcesFit"}}}
		}
	}))
	const pods = 12 // 4 too many, and the binding of each is one violation
	w.Create(builders.CapacityMix("web", 50, 0), builders.Deployment("web", pods, builders.CPU("1")))
	w.WaitBound("web", pods)
	changes, err := recorder.Close(w.Ctx)
	require.NoError(t, err)
	for _, v := range judgeAll(&history.History{Changes: changes}) {
		want := 0
		if strings.HasPrefix(v.Promise, "I2") {
			want = 4
		}
		assert.Len(t, v.Violations, want, v.Promise)
		assert.GreaterOrEqual(t, v.Facts, pods, v.Promise)
	}
}
