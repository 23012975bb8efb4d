// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/perf/bench"
)

func TestTheGateFailsForRegressionsOnly(t *testing.T) {
	miss := &known{bound: 13, why: "the framework takes the rest"}
	for name, tc := range map[string]struct {
		rounds      []float64
		atLeast     bool
		known       *known
		want        outcome
		regressions int
		line        string
	}{
		"met":                                {rounds: []float64{4, 5, 9}, want: met},
		"a regression":                       {rounds: []float64{6, 6.5, 7}, want: regression, regressions: 1, line: "regression: the floor: 6.50 ± 0.500 x, the bound is 5.00\n"},
		"worse by less than the noise":       {rounds: []float64{4, 6, 7}, want: withinNoise, line: "noise: the floor: 6.00 ± 1.50 x, the bound is 5.00\n"},
		"one bad round":                      {rounds: []float64{4, 5, 50}, want: met},
		"a known miss":                       {rounds: []float64{11, 11.5, 12}, known: miss, want: withinBound, line: "known miss: the floor: 11.5 ± 0.500 x, within 13.0: the framework takes the rest\n"},
		"a known miss becomes worse":         {rounds: []float64{14, 14.5, 15}, known: miss, want: regression, regressions: 1, line: "regression: the floor: 14.5 ± 0.500 x, the bound is 13.0\n"},
		"a known miss at its bound, noisy":   {rounds: []float64{12, 13.5, 15}, known: miss, want: withinNoise, line: "noise: the floor: 13.5 ± 1.50 x, the bound is 13.0\n"},
		"a known miss improves":              {rounds: []float64{7, 7.5, 8}, known: miss, want: withinBound, line: "hint: the floor: 7.50 ± 0.500 x, its bound of 13.0 can be tightened (test/perf/report/goals.go)\n"},
		"a known miss is met":                {rounds: []float64{4, 4, 4}, known: miss, want: met, line: "hint: the floor: 4.00 ± 0 x, its bound of 13.0 can be tightened"},
		"not measured":                       {known: miss, want: notMeasured},
		"a floor is met":                     {rounds: []float64{5, 6, 7}, atLeast: true, want: met},
		"a floor is missed":                  {rounds: []float64{3, 3.5, 4}, atLeast: true, want: regression, regressions: 1, line: "regression: the floor: 3.50 ± 0.500 x, the bound is 5.00\n"},
		"a floor is missed by the noise":     {rounds: []float64{3, 4, 6}, atLeast: true, want: withinNoise},
		"a floor that is missed, and known":  {rounds: []float64{4, 4, 4}, atLeast: true, known: &known{bound: 3.5, why: "x"}, want: withinBound},
		"a floor that improves on its bound": {rounds: []float64{8, 8, 8}, atLeast: true, known: &known{bound: 3.5, why: "x"}, want: met, line: "hint: the floor: 8.00"},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdict{goal: goal{what: "the floor", limit: 5, unit: "x", atLeast: tc.atLeast, known: tc.known}, got: bench.Median(tc.rounds), spread: halfRange(tc.rounds)}
			v.outcome = v.decide()
			assert.Equal(t, tc.want, v.outcome)
			var b strings.Builder
			n, err := writeGate(&b, []verdict{v})
			require.NoError(t, err)
			assert.Equal(t, tc.regressions, n)
			assert.Contains(t, b.String(), tc.line)
			if tc.line == "" && (tc.want == met || tc.want == notMeasured) {
				assert.Empty(t, b.String())
			}
		})
	}
}

func TestDisturbedRoundsAloneAreNoRegression(t *testing.T) {
	const what = "the same, 15,000 nodes"
	for name, tc := range map[string]struct {
		disturbed int // of three rounds
		quietTake float64
		want      outcome
	}{
		"all rounds":                  {disturbed: 3, want: disturbed},
		"the quiet one is met":        {disturbed: 2, quietTake: 0.01, want: met},
		"the quiet one is missed too": {disturbed: 2, quietTake: 0.5, want: regression},
		"none":                        {want: regression, quietTake: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			s := measured(0.5)
			r := s.Result("basic/nodes=15000")
			for i := range r.Rounds {
				if r.Rounds[i].Disturbed = i < tc.disturbed; !r.Rounds[i].Disturbed {
					r.Rounds[i].Peers["berth-16"][cpu] = 1000 * tc.quietTake
				}
			}
			for _, v := range judge(map[string]*bench.Suite{"cycle": s}) {
				if v.what == what && v.limit == 0.08 {
					assert.Equal(t, tc.want, v.outcome)
				}
			}
		})
	}
}

func TestBoundsOfKnownMissesAreWiderThanTheirGoals(t *testing.T) {
	for _, g := range goals() {
		if g.known == nil {
			continue
		}
		v := verdict{goal: g, got: g.known.bound}
		assert.Positive(t, v.worse(g.limit), g.what)
		assert.NotEmpty(t, g.known.why, g.what)
	}
}

// What must be exact has no noise.
func TestAMixErrorIsARegressionWhateverTheRoundsAre(t *testing.T) {
	s := measured(0.01)
	s.Results[0].Rounds[0].Peers["berth-16"]["mix_error_pods"] = 1
	for _, v := range judge(map[string]*bench.Suite{"cycle": s}) {
		if v.what == "mix error at any prefix, all cycles" {
			assert.Equal(t, regression, v.outcome)
			assert.InDelta(t, 1, v.got, math.SmallestNonzeroFloat64)
		}
	}
}

func TestGoalsOfPoliciesAreHeldOrMissed(t *testing.T) {
	suite := func(takes, more float64) *bench.Suite {
		s := bench.NewSuite("cycle", "go test …")
		add := func(name, who, peer string) {
			r := bench.Result{Name: name}
			for range 3 {
				r.Rounds = append(r.Rounds, bench.Round{Peers: map[string]bench.Values{
					peer: {cpu: 1000, "allocs_per_pod": 400}, who: {cpu: 1000 * takes, "allocs_per_pod": 400 + more},
				}})
			}
			s.Add(r)
		}
		for _, preset := range []string{"Balanced", "Pack", "Spread"} {
			add("policy/"+preset, "berth-16-policy", "P0")
			add("policy with a mix/"+preset, "berth-16-policy", "berth-16")
		}
		add("no policies", "berth-16", "berth-16-no-policies")
		add("no reservations", "berth-16", "berth-16-no-reservations")
		return s
	}
	for name, tc := range map[string]struct {
		takes, more float64
		want        map[outcome]int
	}{
		"all are met":                    {1, 0, map[outcome]int{met: 9}},
		"plugins without objects cost":   {1.05, 1, map[outcome]int{met: 6, withinBound: 2, regression: 1}},
		"policies without a mix, too":    {1.2, 0, map[outcome]int{met: 4, regression: 5}},
		"with a mix, too":                {1.4, 0, map[outcome]int{met: 1, regression: 8}},
		"fewer allocations are no error": {1, -5, map[outcome]int{met: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[outcome]int{}
			for _, v := range judge(map[string]*bench.Suite{"cycle": suite(tc.takes, tc.more)}) {
				if v.outcome != notMeasured {
					got[v.outcome]++
				}
			}
			assert.Equal(t, tc.want, got)
		})
	}
}
