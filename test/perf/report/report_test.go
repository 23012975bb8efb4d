// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/perf/bench"
)

// measured is a suite in which Berth takes so much of each peer's time.
func measured(berthTakes float64) *bench.Suite {
	s := bench.NewSuite("cycle", "go test …")
	for nodes, name := range map[float64]string{500: "basic/nodes=500", 5_000: "basic/nodes=5000", 15_000: "basic/nodes=15000"} {
		r := bench.Result{Name: name, At: map[string]float64{"nodes": nodes}}
		for range 3 {
			r.Rounds = append(r.Rounds, bench.Round{Load: 1, Peers: map[string]bench.Values{
				"P0": {cpu: 1000, "pods_per_s": 1000}, "P1": {cpu: 10_000, "pods_per_s": 100}, "berth-16": {cpu: 1000 * berthTakes, "pods_per_s": 1000 / berthTakes, "mix_error_pods": 0},
			}})
		}
		s.Add(r)
	}
	return s
}

func TestAReportNamesGoalsMetAndMissed(t *testing.T) {
	for name, test := range map[string]struct {
		takes       float64
		state       string
		regressions int
	}{
		"met":    {0.09, "| against kube-scheduler with no ratio at all (P0), 5,000 nodes | ≤ 0.100 x | 0.090 | met |", 0},
		"known":  {0.14, "| against kube-scheduler with no ratio at all (P0), 5,000 nodes | ≤ 0.100 x | 0.140 | missed, a known miss within its bound |", 1}, // not at 15,000,
		"missed": {0.16, "| against kube-scheduler with no ratio at all (P0), 5,000 nodes | ≤ 0.100 x | 0.160 | **missed** |", 2},
	} {
		t.Run(name, func(t *testing.T) {
			in, out := t.TempDir(), t.TempDir()
			require.NoError(t, measured(test.takes).Save(in))
			var b strings.Builder
			regressions, err := run(&b, in, out)
			require.NoError(t, err)
			assert.Contains(t, b.String(), test.state)
			assert.Contains(t, b.String(), "| not measured |")
			assert.Equal(t, test.regressions, regressions)
			page, err := os.ReadFile(filepath.Join(out, "report.md"))
			require.NoError(t, err)
			assert.Contains(t, string(page), "### basic/nodes=5000")
			assert.FileExists(t, filepath.Join(out, "results.json"))
			plots, err := filepath.Glob(filepath.Join(out, "*.svg"))
			require.NoError(t, err)
			require.Len(t, plots, 2, "of nodes, by time and by pace")
			for _, file := range plots {
				assert.Contains(t, string(page), "("+filepath.Base(file)+")")
				requireXML(t, file)
			}
		})
	}
}

func requireXML(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	d := xml.NewDecoder(f)
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestResultsStayUntilTheyAreMeasuredAgain(t *testing.T) {
	out := t.TempDir()
	first := t.TempDir()
	require.NoError(t, measured(0.09).Save(first))
	_, err := run(io.Discard, first, out)
	require.NoError(t, err)

	second, other := t.TempDir(), bench.NewSuite("other", "go test …")
	other.Add(bench.Result{Name: "case", Rounds: []bench.Round{{Peers: map[string]bench.Values{"P0": {"pods_per_s": 1}}}}})
	require.NoError(t, other.Save(second))
	var b strings.Builder
	_, err = run(&b, second, out)
	require.NoError(t, err)
	assert.Contains(t, b.String(), "| 0.090 | met |")
	suites, err := lastWritten(filepath.Join(out, results))
	require.NoError(t, err)
	assert.Len(t, suites, 2)

	require.NoError(t, measured(0.13).Save(second))
	_, err = run(&b, second, out)
	require.NoError(t, err)
	assert.Contains(t, b.String(), "| 0.130 | **missed** |", "what is measured again takes its place")
}

func TestAnEmptyReportNamesTheCommand(t *testing.T) {
	_, err := run(io.Discard, t.TempDir(), "")
	require.ErrorContains(t, err, "make bench")
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.01234: "0.012", 1.234: "1.23", 12.34: "12.3", 123.4: "123", -0.5: "-0.500"} {
		assert.Equal(t, want, number(x))
	}
}

func TestAxesHaveTicksWithinThem(t *testing.T) {
	s := scale{from: 430, to: 16_000}
	assert.Equal(t, []float64{500, 1000, 2000, 5000, 10_000}, s.ticks())
	assert.InDelta(t, 0, s.at(430), 1e-9)
	assert.InDelta(t, 1, s.at(16_000), 1e-9)
	assert.Equal(t, "10 k", short(10_000))
}
