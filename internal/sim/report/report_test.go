// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files again")

// small is a result with a run of unknown cost and with a storm.
func small() *Result {
	series := func(spot, onDemand, gap int) (list []Sample) {
		for i := range 25 {
			s := Sample{Seconds: float64(i) * 3600, Wanted: 10, ReadySpot: spot, ReadyOnDemand: onDemand, SpotNodes: (spot + 1) / 2, OnDemandNodes: (onDemand + 1) / 2}
			if i >= 12 && i < 12+gap {
				s.ReadySpot, s.SpotNodes, s.Pending = 0, 0, spot
			}
			if i == 20 {
				s.ReadyOnDemand, s.BelowFloor = max(0, onDemand-1), min(onDemand, 1)
			}
			list = append(list, s)
		}
		return list
	}
	return &Result{
		Scenario: "storm.yaml", Seed: 7, Seconds: 86_400, OptimumDollars: new(4.75),
		Runs: []Run{
			{
				Policy: "berth", Description: "Berth with the mixes of the scenario.", Dollars: new(7.125), CostOfOptimum: new(1.5), SpotNodeHours: 92, OnDemandNodeHours: 48,
				WantedReplicaMinutes: 14_400, ReadyReplicaMinutes: 14_189.99, BelowWantedReplicaMinutes: 210.01, BelowFloorReplicaMinutes: 60,
				OffMixWorkloadMinutes: 75.5, Moves: 3, Interruptions: 4, InterruptedReplicas: 7, Launched: 6, Series: series(7, 3, 1),
			},
			{
				Policy: "all-on-demand", Description: "Every replica on on-demand nodes.", Dollars: new(11.52), OnDemandNodeHours: 120,
				WantedReplicaMinutes: 14_400, ReadyReplicaMinutes: 14_399.98, BelowWantedReplicaMinutes: 0.02, Series: series(0, 10, 0),
			},
			{
				Policy: "all-spot", Dollars: new(4.2), SpotNodeHours: 110, WantedReplicaMinutes: 14_400, ReadyReplicaMinutes: 12_600,
				BelowWantedReplicaMinutes: 1800, Interruptions: 5, InterruptedReplicas: 10, Launched: 5, Series: series(10, 0, 3),
			},
			{
				Policy: "topology-spread", Dollars: new(9.0), SpotNodeHours: 60, OnDemandNodeHours: 60, WantedReplicaMinutes: 14_400,
				ReadyReplicaMinutes: 13_800, BelowWantedReplicaMinutes: 600, Launched: 6,
			},
			{Policy: "unpriced", SpotNodeHours: 1.5},
		},
		Notes: []string{"Pool spot-b has no price: the cost of unpriced is unknown."},
	}
}

func TestAResultIsPrintedInEachFormat(t *testing.T) {
	for file, write := range map[string]func(io.Writer, *Result) error{"small.txt": Text, "small.json": JSON, "small.html": HTML} {
		var got, again bytes.Buffer
		require.NoError(t, write(&got, small()))
		require.NoError(t, write(&again, small()))
		assert.Equal(t, got.String(), again.String(), "the same result gives the same bytes")
		golden := filepath.Join("testdata", file)
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o750))
			require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o600))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), got.String(), "%s; run the test with -update if it should be so", file)
	}
}

func TestAResultIsReadBackFromJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, JSON(&out, small()))
	assert.Contains(t, out.String(), `"dollars": null`, "unknown is not zero")
	var back Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, small(), &back)
}

func TestAWriterThatFailsIsReported(t *testing.T) {
	for _, write := range []func(io.Writer, *Result) error{Text, JSON, HTML} {
		require.ErrorIs(t, write(full{}, small()), errFull)
	}
}

var errFull = fmt.Errorf("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestNumbersAreNotRoundedToWhatTheyAreNot(t *testing.T) {
	for got, want := range map[string]string{
		decimal(0, 1): "0.0", decimal(0.04, 1): "<0.1", decimal(0.05, 1): "0.1", decimal(1234.56, 1): "1234.6", decimal(0.004, 2): "<0.01",
		share(99_999_999, 100_000_000): "99.99", share(1, 1): "100.00", share(0, 1): "0.00", cost(nil): "<unknown>",
	} {
		assert.Equal(t, want, got)
	}
	assert.Equal(t, "<unknown>", decimal(math.NaN(), 1))
	assert.Equal(t, "<unknown>", share(0, 0), "none is wanted")
	assert.Equal(t, "<unknown>", span(math.Inf(1)))
}

func TestThePageHasTheColumns(t *testing.T) {
	page, err := os.ReadFile("../../../docs/simulation.md")
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(page), "\n| column | meaning |\n|---|---|\n")
	require.True(t, found)
	rows, _, _ = strings.Cut(rows, "\n\n")
	var documented []string
	for row := range strings.Lines(rows) {
		documented = append(documented, strings.Split(strings.TrimSpace(strings.Split(row, "|")[1]), ", ")...)
	}
	assert.Equal(t, table(nil)[0], documented)
}

func drawRuns(t *rapid.T) []Run {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Run {
		r := Run{BelowWantedReplicaMinutes: float64(rapid.IntRange(0, 6).Draw(t, "below"))}
		if dollars := rapid.IntRange(-1, 6).Draw(t, "dollars"); dollars >= 0 {
			r.Dollars = new(float64(dollars))
		}
		return r
	}), 0, 12).Draw(t, "runs")
}

func TestPropertyTheFrontHasTheRunsThatNoneBeats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		front := map[int]bool{}
		last := math.Inf(-1)
		for _, i := range Front(runs) {
			require.GreaterOrEqual(t, *runs[i].Dollars, last, "by cost")
			last = *runs[i].Dollars
			front[i] = true
		}
		for i := range runs {
			beaten := runs[i].Dollars == nil
			for j := range runs {
				if beaten || runs[j].Dollars == nil {
					continue
				}
				cheaper, fewer := *runs[j].Dollars-*runs[i].Dollars, runs[j].BelowWantedReplicaMinutes-runs[i].BelowWantedReplicaMinutes
				beaten = cheaper <= 0 && fewer <= 0 && (cheaper < 0 || fewer < 0)
			}
			require.Equal(t, !beaten, front[i], "run %d", i)
		}
	})
}

// Two mixes that have the same effect have the same figures: both are on the front, or none.
func TestTheFrontOfEqualRunsHasAllOfThem(t *testing.T) {
	run := func(dollars, below float64) Run { return Run{Dollars: &dollars, BelowWantedReplicaMinutes: below} }
	assert.Equal(t, []int{1, 4, 0, 3}, Front([]Run{run(8, 125), run(7, 140), run(8, 126), run(8, 125), run(7, 140), run(9, 125)}))
}

func TestTheFrontHasOnlyNumbers(t *testing.T) {
	runs := []Run{{Dollars: new(math.NaN())}, {Dollars: new(math.Inf(-1))}, {Dollars: new(1.0), BelowWantedReplicaMinutes: math.NaN()}, {Dollars: new(2.0)}}
	assert.Equal(t, []int{3}, Front(runs))
	assert.Empty(t, Front(nil))
}

func TestPropertyAShortGapStaysVisible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(1, 2000).Draw(t, "samples"), rapid.IntRange(6, 600).Draw(t, "most")
		series := make([]Sample, n)
		for i := range series {
			series[i] = Sample{Seconds: float64(i), Wanted: 10, ReadySpot: 7, ReadyOnDemand: 3}
		}
		gap, floor := rapid.IntRange(0, n-1).Draw(t, "gap"), rapid.IntRange(0, n-1).Draw(t, "floor")
		series[gap].ReadySpot = 0
		series[floor].BelowFloor = 2
		got := Downsample(series, most)
		require.LessOrEqual(t, len(got), max(n, 0))
		require.LessOrEqual(t, len(got), max(most, min(n, most)))
		require.Equal(t, series[0], got[0])
		require.Equal(t, series[n-1], got[len(got)-1])
		require.Contains(t, got, series[gap])
		require.Contains(t, got, series[floor])
		for i := 1; i < len(got); i++ {
			require.Greater(t, got[i].Seconds, got[i-1].Seconds)
		}
	})
}

func TestTicksAreFewAndCoverTheValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Float64Range(1e-6, 1e9).Draw(t, "most")
		for _, a := range []axis{numbers(most, 0, 100), times(most+2, 0, 100)} {
			ticks := a.ticks()
			require.True(t, len(ticks) >= 2 && len(ticks) <= mostTicks+1, "%v", ticks)
			require.LessOrEqual(t, a.at(most), 100.0)
			require.GreaterOrEqual(t, a.most, most*(1-1e-9))
		}
	})
	few := whole(1, 0, 100)
	assert.Equal(t, []float64{0, 1, 2, 3, 4}, few.ticks(), "no part of a replica")
	for seconds, want := range map[float64]string{0: "0 s", 45: "45 s", 600: "10 min", 7200: "2 h", 5400: "90 min", 172_800: "2 d"} {
		assert.Equal(t, want, clock(seconds))
	}
}
