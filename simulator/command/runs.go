// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"berth.dev/berth/internal/sim/optimum"
	"berth.dev/berth/internal/sim/report"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/sweep"
	"berth.dev/berth/simulator"
)

const (
	// progressEvery is how often the progress is printed.
	progressEvery = 5 * time.Second
	// noteOfSweep is what the variants of a policy are. BELOW-FLOOR of two variants is about two floors.
	noteOfSweep = "Berth with values: the mix of each workload that has one, with these values. BELOW-FLOOR(replica-min) counts the minOnDemand of " +
		"the row, so it is not part of the Pareto front"
)

// task is a run of the results.
type task struct {
	scenario *scenario.Scenario
	policy   simulator.Policy
	// values are those of a sweep, nil for a run of the scenario as it is.
	values map[string]string
}

// swept reports whether a policy is simulated with each variant of the mixes.
func swept(p simulator.Policy) bool { return p.Mixes }

// tasksOf has a task for each policy, or one for each variant of the mixes, in the order of the results.
func tasksOf(s *scenario.Scenario, policies []simulator.Policy, variants []sweep.Variant) (tasks []task, err error) {
	scenarios, err := sweep.Scenarios(s, variants)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if len(variants) == 0 || !swept(p) {
			tasks = append(tasks, task{scenario: sweep.Variant{}.Apply(s), policy: p})
			continue
		}
		for i, v := range variants {
			of := p
			of.Name, of.Description = p.Name+" "+v.String(), "" // of all variants, the note has it
			tasks = append(tasks, task{scenarios[i], of, v.Values()})
		}
	}
	return tasks, nil
}

// notesOf are the notes on all scenarios: a value of a sweep may be one that nothing simulates.
func notesOf(tasks []task) (notes []string) {
	known := map[string]bool{}
	for _, t := range tasks {
		for _, note := range simulator.Notes(t.scenario) {
			if !known[note] {
				known[note] = true
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// simulate runs the tasks, several at a time. The first error ends all. The optimum is that of the scenario without values.
func (f *flags) simulate(ctx context.Context, out io.Writer, tasks []task, optimal optimum.Optimum) ([]report.Run, error) {
	runs := make([]report.Run, len(tasks))
	p := &progress{out: out, quiet: f.quiet, last: time.Now(), total: len(tasks)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(f.workers())
	for i, t := range tasks {
		group.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			run, err := simulator.Run(ctx, t.scenario, t.policy, p.of(t.policy.Name, t.scenario.Duration.Duration))
			if err != nil {
				return err
			}
			least := optimal
			if t.values != nil {
				least = optimum.Of(ctx, t.scenario)
			}
			run.Values, run.CostOfOptimum = t.values, least.Ratio(run.Dollars)
			runs[i] = *run
			p.end()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return runs, nil
}

func (f *flags) workers() int {
	if f.parallel == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return f.parallel
}

// progress prints how far the simulations are, now and then.
type progress struct {
	out   io.Writer
	quiet bool
	total int

	mu   sync.Mutex // guards what follows, and out
	last time.Time
	done int
}

// of returns what a simulation calls with its time.
func (p *progress) of(name string, length time.Duration) func(time.Duration) {
	return func(at time.Duration) {
		if p.quiet {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		now := time.Now()
		if now.Sub(p.last) < progressEvery {
			return
		}
		p.last = now
		text := fmt.Sprintf("%s: %s of %s", name, at.Round(time.Minute), length)
		if p.total > 1 {
			text += fmt.Sprintf(", %d of %d runs are done", p.done, p.total)
		}
		fmt.Fprintln(p.out, text)
	}
}

// end counts a simulation that is done.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
}
