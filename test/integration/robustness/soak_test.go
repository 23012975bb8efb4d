// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/robustness/history"
	"berth.dev/berth/test/robustness/judge"
	"berth.dev/berth/test/robustness/plan"
	"berth.dev/berth/test/robustness/trend"
	"berth.dev/berth/test/testenv"
)

const (
	// envSoak is how long the soak takes, such as 10m.
	envSoak = "BERTH_SOAK"
	// stepsOfRound are the steps of one round of a soak: its history is judged, and forgotten.
	stepsOfRound = 40
	// sampling is the time between two samples, fewestSamples how many of one process the last half must have.
	sampling, fewestSamples = 5 * time.Second, 10
	// seedsOfSoak are those that the rounds take in turn. Rounds of other seeds have too different numbers of writes to be compared.
	seedsOfSoak = 4
	// mostGrowth is by how much memory, goroutines, watches and writes may grow during the last half: the workloads of a round differ.
	mostGrowth = 0.25
)

// measured are the samples of one process.
type measured struct {
	pid int

	resident, goroutines, watches []trend.Sample
}

// soak runs rounds with the same programs.
type soak struct {
	*runner
	processes map[string]*measured
	sampled   time.Time
	// writes are those of each round, by program.
	writes map[history.Program][]int
}

// gentle leaves out the steps that end a program: one that has just started grows.
func gentle(s plan.Step) bool {
	const most = 4 * time.Second // the lease is valid for 7 seconds
	return s.Kind != plan.Kill && (s.Kind != plan.Stop && s.Kind != plan.Outage || s.For < most)
}

func (s *soak) sample() {
	if time.Since(s.sampled) < sampling {
		return
	}
	s.sampled = time.Now()
	s.measure(string(history.Scheduler), s.scheduler.PID(), s.scheduler)
	for _, name := range replicas {
		s.measure(name, s.controllers[name].PID(), s.controllers[name])
	}
}

// measure samples a process. One that does not answer during a fault is sampled the next time.
func (s *soak) measure(name string, pid int, p testenv.Measured) {
	m := s.processes[name]
	if m == nil || m.pid != pid {
		m = &measured{pid: pid}
		s.processes[name] = m
	}
	m.watches = append(m.watches, trend.Sample{At: s.sampled, Value: float64(s.networks[name].Watches())})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err == nil {
		m.resident = append(m.resident, trend.Sample{At: s.sampled, Value: field(status, "VmRSS:")})
	}
	if text, err := p.Get(s.Ctx, "/metrics"); err == nil {
		m.goroutines = append(m.goroutines, trend.Sample{At: s.sampled, Value: field(text, "go_goroutines ")})
	}
}

// field is the number after a name at the begin of a line, 0 if there is none.
func field(text []byte, name string) float64 {
	for line := range bytes.Lines(text) {
		if rest, is := strings.CutPrefix(string(line), name); is {
			n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// round takes the steps of a seed, and judges what happened.
func (s *soak) round(seed uint64) {
	s.T.Helper()
	var err error
	s.recorder, err = history.NewRecorder(s.Ctx, s.Cluster.EtcdURL())
	require.NoError(s.T, err)
	s.seed, s.plan, s.began, s.steps = seed, plan.New(seed, stepsOfRound), time.Now(), nil
	s.wait(grace + 2*time.Second) // the first renewal counts as a change of the leader
	for _, step := range s.plan.Steps {
		if gentle(step) {
			s.step(&step)
		}
		s.sample()
	}
	s.settle()
	s.sample()
	h := s.history()
	// Which controller leads is known from its first renewal on.
	h.Requests = h.Requests[slices.IndexFunc(h.Requests, func(q history.Request) bool { return q.Program == history.Controller && q.Resource == "leases" }):]
	counts := map[history.Program]int{}
	for i := range h.Requests {
		if r := &h.Requests[i]; !slices.Contains(judge.Harmless, r.Resource) {
			counts[r.Program]++
		}
	}
	for _, program := range []history.Program{history.Scheduler, history.Controller} {
		s.writes[program] = append(s.writes[program], counts[program])
	}
	for _, v := range judgeAll(h) {
		assert.Empty(s.T, v.Violations, v.Promise)
	}
	if s.T.Failed() {
		s.T.Fatalf("round %d: the history is in %s", seed, s.keep(h))
	}
	s.T.Logf("round %d, seed %d: %d writes of the scheduler and %d of the controllers in %s", len(s.writes[history.Scheduler]), seed,
		counts[history.Scheduler], counts[history.Controller], time.Since(s.began).Round(time.Second))
}

// Memory, goroutines, watches and writes of each program stay as they are while the same traffic and faults go on.
func TestSoak(t *testing.T) {
	text := os.Getenv(envSoak)
	if text == "" {
		t.Skip(envSoak + " is not set")
	}
	during, err := time.ParseDuration(text)
	require.NoError(t, err, envSoak)
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} { // the programs collect garbage as they do by default
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
	s := &soak{
		runner:    newRunner(testenv.New(t, nodes(plan.NodesOfType)...), 0),
		processes: map[string]*measured{}, writes: map[history.Program][]int{},
	}
	_, err = s.recorder.Close(s.Ctx)
	require.NoError(t, err)
	s.begin(plan.New(0, 0))
	for n, until := uint64(0), time.Now().Add(during); time.Now().Before(until); n++ {
		s.round(1 + n%seedsOfSoak)
	}
	check := func(what string, samples []trend.Sample, least int) bool {
		growth, ok := trend.Growth(samples, least)
		t.Logf("%s: %d samples, %.1f%% growth during the last half, now %.0f", what, len(samples), 100*growth, samples[len(samples)-1].Value)
		assert.False(t, ok && growth > mostGrowth, "%s grows", what)
		return ok
	}
	judged := 0
	for _, name := range append(slices.Clone(replicas), string(history.Scheduler)) {
		m := s.processes[name]
		if check("kB resident of "+name, m.resident, fewestSamples) && check("goroutines of "+name, m.goroutines, fewestSamples) &&
			check("watches of "+name, m.watches, fewestSamples) {
			judged++
		}
	}
	assert.GreaterOrEqual(t, judged, 2, "processes that lived long enough")
	for program, rounds := range s.writes {
		// The first time the seeds begin with workloads that are new.
		if turns := sums(rounds, seedsOfSoak); len(turns) > 2 {
			t.Logf("writes of %s, for all seeds in turn: %v", program, turns)
			assert.LessOrEqual(t, float64(turns[len(turns)-1]), (1+mostGrowth)*float64(turns[1]), "writes of %s grow", program)
		}
	}
}

// sums adds up each n numbers that follow each other. Fewer at the end are left out.
func sums(of []int, n int) (list []int) {
	for some := range slices.Chunk(of, n) {
		sum := 0
		for _, v := range some {
			sum += v
		}
		if len(some) == n {
			list = append(list, sum)
		}
	}
	return list
}
