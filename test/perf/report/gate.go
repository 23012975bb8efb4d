// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"math"
	"slices"

	"berth.dev/berth/test/perf/bench"
)

// outcome is what the gate makes of a goal.
type outcome string

const (
	met         outcome = "met"
	notMeasured outcome = "not measured"
	// withinBound is a miss that is known, and why.
	withinBound outcome = "missed, a known miss within its bound"
	// withinNoise is a median that is worse by less than the rounds of the run differ.
	withinNoise outcome = "missed, within the noise of the run"
	// disturbed is a median that is worse only with rounds in which others took the processors.
	disturbed  outcome = "missed, in disturbed rounds"
	regression outcome = "**missed**"
)

// known is a bound of a goal that is missed, or not met in every run. Beyond it the gate fails.
type known struct {
	bound float64
	why   string
}

// tighten is the share of a bound below which it is no longer of use.
const tighten = 0.75

type verdict struct {
	goal
	got float64
	// spread is half of what the rounds of the run differ by.
	spread  float64
	outcome outcome
}

// judge compares what was measured with the goals.
func judge(suites map[string]*bench.Suite) []verdict {
	var list []verdict
	for _, g := range goals() {
		v := g.judge(suites[g.suite])
		if v.outcome == regression {
			switch quiet := g.judge(quiet(suites[g.suite])); {
			case g.rounds == nil: // it is not about time
			case quiet.outcome == notMeasured:
				v.outcome = disturbed
			case quiet.outcome != regression:
				v = quiet
			}
		}
		list = append(list, v)
	}
	return list
}

func (g goal) judge(s *bench.Suite) verdict {
	v := verdict{goal: g, got: math.NaN()}
	if s != nil {
		v.got = g.value(s)
		if g.rounds != nil {
			v.spread = halfRange(g.rounds(s))
		}
	}
	v.outcome = v.decide()
	return v
}

// quiet is a suite without the rounds that were disturbed.
func quiet(s *bench.Suite) *bench.Suite {
	out := *s
	out.Results = slices.Clone(s.Results)
	for i := range out.Results {
		out.Results[i].Rounds = slices.DeleteFunc(slices.Clone(out.Results[i].Rounds), func(r bench.Round) bool { return r.Disturbed })
	}
	return &out
}

func halfRange(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	return (slices.Max(of) - slices.Min(of)) / 2
}

// worse is by how much the value is worse than a limit; a value that is better is below 0.
func (v *verdict) worse(limit float64) float64 {
	if v.atLeast {
		return limit - v.got
	}
	return v.got - limit
}

func (v *verdict) decide() outcome {
	switch {
	case math.IsNaN(v.got):
		return notMeasured
	case v.worse(v.limit) <= 0:
		return met
	case v.known != nil && v.worse(v.known.bound) <= 0:
		return withinBound
	case v.worse(v.bound()) <= v.spread:
		return withinNoise
	}
	return regression
}

// bound is what the gate fails beyond.
func (v *verdict) bound() float64 {
	if v.known != nil {
		return v.known.bound
	}
	return v.limit
}

// loose reports whether the bound of a known miss is further off than the run needs.
func (v *verdict) loose() bool {
	if v.known == nil || v.outcome == notMeasured {
		return false
	}
	if v.atLeast {
		return (v.got-v.spread)*tighten > v.known.bound
	}
	return v.got+v.spread < v.known.bound*tighten
}

// writeGate prints what is not met, and returns how many goals have a regression.
func writeGate(out io.Writer, verdicts []verdict) (regressions int, err error) {
	w := &writer{Writer: out}
	for i := range verdicts {
		v := &verdicts[i]
		text := number(v.got) + " ± " + number(v.spread) + " " + v.unit
		switch v.outcome {
		case regression:
			regressions++
			w.printf("regression: %s: %s, the bound is %s\n", v.what, text, number(v.bound()))
		case withinBound:
			w.printf("known miss: %s: %s, within %s: %s\n", v.what, text, number(v.known.bound), v.known.why)
		case withinNoise:
			w.printf("noise: %s: %s, the bound is %s\n", v.what, text, number(v.bound()))
		case disturbed:
			w.printf("disturbed: %s: %s, the bound is %s: measure it again with nothing else on the machine\n", v.what, text,
				number(v.bound()))
		}
		if v.loose() {
			w.printf("hint: %s: %s, its bound of %s can be tightened (test/perf/report/goals.go)\n", v.what, text, number(v.known.bound))
		}
	}
	return regressions, w.err
}
