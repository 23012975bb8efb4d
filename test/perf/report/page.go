// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"berth.dev/berth/test/perf/bench"
)

// writer remembers the first error, so that the pages read as pages.
type writer struct {
	io.Writer
	err error
}

func (w *writer) printf(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.Writer, format, args...)
	}
}

// number prints three significant digits, and no exponent.
func number(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "–"
	case a == 0, a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

func (v *verdict) goalText() string {
	sign := "≤"
	if v.atLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s %s", sign, number(v.limit), v.unit)
}

func (v *verdict) state() string { return string(v.outcome) }

func writeGoals(out io.Writer, verdicts []verdict) error {
	w := &writer{Writer: out}
	w.printf("| measure | goal | measured | |\n|---|---|---|---|\n")
	for i := range verdicts {
		v := &verdicts[i]
		w.printf("| %s | %s | %s | %s |\n", v.what, v.goalText(), number(v.got), v.state())
	}
	return w.err
}

func writePage(out io.Writer, suites map[string]*bench.Suite, verdicts []verdict) error {
	w := &writer{Writer: out}
	w.printf("# Measurements\n\nWritten by `make bench-report` from what the suites measured; [performance](../performance.md) says what they mean.\n")
	w.printf("All figures are medians over the rounds of a case, and ratios are medians of the ratios within each round. Goals of `gate` runs may be\n")
	w.printf("missing here.\n\n## Goals\n\n")
	if err := writeGoals(w, verdicts); err != nil {
		return err
	}
	w.printf("\n## Curves\n")
	for _, p := range plots(suites) {
		w.printf("\n![%s](%s)\n", p.title, p.file)
	}
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		w.suite(suites[name])
	}
	return w.err
}

func (w *writer) suite(s *bench.Suite) {
	w.printf("\n## Suite %s\n\n    %s\n\n", s.Name, s.Command)
	w.printf("%d × %s, %d GiB, %s, %s; begun %s.\n", s.Machine.Cores, s.Machine.Processor, s.Machine.MemoryGiB, s.Machine.Go,
		s.Machine.System, s.Began.Format("2006-01-02 15:04 MST"))
	for i := range s.Results {
		r := &s.Results[i]
		metrics := metricsOf(r)
		w.printf("\n### %s\n\n%s\n\n", r.Name, conditions(r))
		w.printf("| | %s |\n|---|%s\n", strings.Join(metrics, " | "), strings.Repeat("---|", len(metrics)))
		for _, peer := range r.Peers() {
			w.printf("| %s |", peer)
			for _, m := range metrics {
				w.printf(" %s |", spread(r.Of(peer, m)))
			}
			w.printf("\n")
		}
	}
}

// conditions describes how a case was measured.
func conditions(r *bench.Result) string {
	var loads, foreign []float64
	disturbed := 0
	for _, round := range r.Rounds {
		loads, foreign = append(loads, round.Load), append(foreign, 100*round.Foreign)
		if round.Disturbed {
			disturbed++
		}
	}
	text := fmt.Sprintf("%d rounds, load %s, others took %s %% of the processors", len(r.Rounds), spread(loads), spread(foreign))
	if r.Discarded > 0 {
		text += fmt.Sprintf("; %d rounds thrown away", r.Discarded)
	}
	if disturbed > 0 {
		text += fmt.Sprintf("; %d disturbed rounds kept", disturbed)
	}
	parts := []string{text}
	for _, k := range slices.Sorted(maps.Keys(r.Settings)) {
		parts = append(parts, k+" "+r.Settings[k])
	}
	return strings.Join(parts, "; ") + "."
}

// spread is the median, and where the rounds differ, the least and the most.
func spread(of []float64) string {
	if len(of) == 0 {
		return "–"
	}
	m, low, high := number(bench.Median(of)), number(slices.Min(of)), number(slices.Max(of))
	if low == high {
		return m
	}
	return fmt.Sprintf("%s (%s–%s)", m, low, high)
}

func metricsOf(r *bench.Result) []string {
	names := map[string]bool{}
	for _, round := range r.Rounds {
		for _, v := range round.Peers {
			for name := range v {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// page is what results.json holds.
type page struct {
	Goals  []judged                `json:"goals"`
	Suites map[string]*bench.Suite `json:"suites"`
}

type judged struct {
	What  string   `json:"what"`
	Goal  string   `json:"goal"`
	Got   *float64 `json:"got,omitempty"`
	State string   `json:"state"`
}

// lastWritten reads the suites of a file that writeJSON wrote; of none there are none.
func lastWritten(file string) (map[string]*bench.Suite, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p page
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p.Suites, nil
}

// writeJSON writes all results and verdicts for machines.
func writeJSON(file string, suites map[string]*bench.Suite, verdicts []verdict) error {
	p := page{Suites: suites}
	for i := range verdicts {
		v := &verdicts[i]
		j := judged{What: v.what, Goal: v.goalText(), State: strings.Trim(v.state(), "*")}
		if v.outcome != notMeasured {
			j.Got = &v.got
		}
		p.Goals = append(p.Goals, j)
	}
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
