// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/sim/report"
)

// The page has the command and the figures that the program prints, whatever number of simulations run at a time.
func TestTheSweepOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/simulation.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Compare mixes\n")
	require.True(t, found)
	_, block, found := strings.Cut(section, "\n    $ bin/berth-sim docs/simulation/storm.yaml ")
	require.True(t, found)
	flags, block, _ := strings.Cut(block, "\n")
	block, _, _ = strings.Cut(block, "\n\n")
	documented := strings.Split(strings.TrimPrefix(block, "    "), "\n    ")
	var pages [2]string
	for i, parallel := range []string{"1", "4"} {
		file := filepath.Join(t.TempDir(), "result.html")
		out, _, err := run(t, append([]string{example, "--html", file, "--parallel", parallel}, strings.Fields(flags)...)...)
		require.NoError(t, err)
		table, _, _ := strings.Cut(out, "\n\n")
		var printed []string
		for line := range strings.Lines(table) {
			printed = append(printed, strings.TrimRight(line, " \n"))
		}
		assert.Equal(t, documented, printed)
		html, err := os.ReadFile(file)
		require.NoError(t, err)
		pages[i] = string(html)
	}
	assert.Equal(t, pages[0], pages[1])
}

// More spot replicas cost less, and more of them are missing in a storm: none of the mixes is better than the others.
func TestASweepHasAFront(t *testing.T) {
	out, _, err := run(t, example, "--policies", "OnDemand,Berth", "--sweep", "spotPercent=0,40,80", "-o", "json")
	require.NoError(t, err)
	var result report.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Len(t, result.Runs, 4)
	assert.Equal(t, "OnDemand", result.Runs[0].Policy)
	assert.Nil(t, result.Runs[0].Values)
	sweep := result.Runs[1:]
	for i, percent := range []string{"0", "40", "80"} {
		assert.Equal(t, "Berth spotPercent="+percent, sweep[i].Policy, "in the order of the values")
		assert.Equal(t, map[string]string{"spotPercent": percent}, sweep[i].Values)
		assert.Empty(t, sweep[i].Description, "the note describes all of them")
		if i > 0 {
			assert.Less(t, *sweep[i].Dollars, *sweep[i-1].Dollars)
		}
	}
	assert.Greater(t, len(report.Front(sweep)), 1)
	assert.Contains(t, result.Notes, noteOfSweep)
}

func TestTheFlagsOfASweep(t *testing.T) {
	for want, args := range map[string][]string{
		`--sweep: Unsupported value: "share": supported values: "spotPercent"`:                               {"--sweep", "share=1"},
		`--sweep: Forbidden: only the policy Berth has mixes, and --policies lacks it`:                       {"--sweep", "spotPercent=1", "--policies", "Spot"},
		`--sweep minOnDemand=1 spotPercent=101: workloads[0].mix.spotPercent: Invalid value: 101: must be b`: {"--sweep", "minOnDemand=1", "--sweep", "spotPercent=101"},
		`--parallel: Invalid value: -1: must not be negative`:                                                {"--parallel", "-1"},
	} {
		_, _, err := run(t, append(args, example)...)
		assert.ErrorContains(t, err, want)
	}
}

// No run begins after an interrupt, and nothing is printed of those that were done.
func TestAnInterruptEndsAllRuns(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	for _, parallel := range []string{"1", "3"} {
		streams, _, out, _ := genericiooptions.NewTestIOStreams()
		cmd := New("berth-sim", streams)
		cmd.SetArgs([]string{example, "--sweep", "spotPercent=10,20,30", "--parallel", parallel})
		require.ErrorContains(t, cmd.ExecuteContext(ctx), "interrupted")
		assert.Empty(t, out.String())
	}
}

func TestTheProgressNamesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{out: &out, last: time.Now(), total: 3}
		first, second := p.of("Berth spotPercent=70", 10*time.Hour), p.of("Berth spotPercent=90", 10*time.Hour)
		first(time.Hour)
		p.end()
		time.Sleep(progressEvery)
		second(2 * time.Hour)
		first(3 * time.Hour)
		time.Sleep(progressEvery)
		first(4 * time.Hour)
		p.total, p.quiet = 1, false
		time.Sleep(progressEvery)
		p.of("Spot", 10*time.Hour)(time.Minute)
		p.quiet = true
		time.Sleep(progressEvery)
		first(5 * time.Hour)
		assert.Equal(t, "Berth spotPercent=90: 2h0m0s of 10h0m0s, 1 of 3 runs are done\nBerth spotPercent=70: 4h0m0s of 10h0m0s, 1 of 3 runs are done\n"+
			"Spot: 1m0s of 10h0m0s\n", out.String())
	})
}

// A value may be one that nothing simulates, though no mix of the scenario has it.
func TestASweepHasTheNotesOnItsValues(t *testing.T) {
	out, _, err := run(t, example, "--policies", "Berth", "--sweep", "maxPerDomain=80%", "--quiet")
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(out, "take no notice of maxPerDomain"), out)
}
