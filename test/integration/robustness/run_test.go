// SPDX-License-Identifier: Apache-2.0

// Package robustness_test runs random traffic and random faults from a seed, records each revision from etcd, and has the validators of
// test/robustness judge the history.
package robustness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

const (
	// envSeeds are the seeds of the runs, separated by commas, or from..to; envSteps the number of steps of each.
	envSeeds = "BERTH_SEEDS"
	envSteps = "BERTH_STEPS"
	// envHistory is the file of a run whose steps are repeated.
	envHistory = "BERTH_HISTORY"
	// steps is their number in make test-more.
	steps = 30
	// A run in which less happened than this is no run.
	fewestFaults, fewestBindings = 4, 50
)

func TestPromisesHoldUnderRandomTrafficAndFaults(t *testing.T) {
	if path := os.Getenv(envHistory); path != "" {
		hold(t, planOf(t, path), 0)
		return
	}
	n := steps
	if text := os.Getenv(envSteps); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err, envSteps)
	}
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { hold(t, plan.New(seed, n), seed) })
	}
}

// The steps of runs that found a defect are repeated as they were then: the generator has changed since.
func TestPromisesHoldInRunsThatFoundDefects(t *testing.T) {
	slow(t)
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { hold(t, planOf(t, file), 0) })
	}
}

// planOf reads the plan of a run from its history, or from a file that has no more of it.
func planOf(t *testing.T, file string) *plan.Plan {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	h, err := history.Read(f)
	require.NoError(t, err)
	require.NotNil(t, h.Plan, "%s has no plan", file)
	return h.Plan
}

// hold takes the steps of a plan, and has the history judged.
func hold(t *testing.T, p *plan.Plan, seed uint64) {
	t.Helper()
	r := run(t, p, seed)
	h := r.history()
	faults := 0
	for i := range h.Steps {
		if h.Steps[i].Fault {
			faults++
		}
	}
	require.GreaterOrEqual(t, faults, fewestFaults*len(p.Steps)/steps, "faults")
	for _, v := range judgeAll(h) {
		t.Log(v)
		assert.Empty(t, v.Violations, v.Promise)
	}
	assert.GreaterOrEqual(t, judge.BoundOnce(h).Facts, fewestBindings, "bindings")
	if t.Failed() {
		file := r.keep(h)
		t.Logf("the history is in %s; make repro HISTORY=%s repeats the steps", file, file)
	}
}

// seeds are those of the environment: 1,2,3 or 1..3. In make test-more there is one.
func seeds(t *testing.T) (list []uint64) {
	t.Helper()
	text := os.Getenv(envSeeds)
	if text == "" {
		return []uint64{1}
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, is := strings.Cut(part, "..")
		first, err := strconv.ParseUint(from, 10, 32)
		require.NoError(t, err, envSeeds)
		last := first
		if is {
			last, err = strconv.ParseUint(to, 10, 32)
			require.NoError(t, err, envSeeds)
		}
		for seed := first; seed <= last; seed++ {
			list = append(list, seed)
		}
	}
	return list
}

func judgeAll(h *history.History) (all []*judge.Verdict) {
	for _, validator := range judge.Validators {
		all = append(all, validator(h))
	}
	return all
}

// run takes the steps of a plan, and waits until all mixes are exact.
func run(t *testing.T, p *plan.Plan, seed uint64) *runner {
	t.Helper()
	r := newRunner(testenv.New(t, nodes(plan.NodesOfType)...), seed)
	defer func() {
		if t.Failed() {
			t.Logf("the history is in %s", r.keep(r.history()))
		}
	}()
	r.begin(p)
	for i := range p.Steps {
		r.step(&p.Steps[i])
	}
	r.settle()
	return r
}

// A scheduler that does not look at resources is caught: by the record of etcd, and by this validator alone.
func TestASchedulerThatOvercommitsIsCaught(t *testing.T) {
	w := testenv.New(t, nodes(1)...)
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
		if want > 0 {
			assert.GreaterOrEqual(t, v.Facts, pods, v.Promise)
		}
	}
}
