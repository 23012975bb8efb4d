// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/internal/sim/report"
	"berth.dev/berth/simulator"
)

const example = "../../docs/simulation/storm.yaml"

func run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	cmd := New("berth-sim", streams)
	cmd.SetArgs(args)
	cmd.SetOut(o)
	err = cmd.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

// The page has the figures that the program prints.
func TestTheExampleOfTheDocs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "result.html")
	out, _, err := run(t, example, "--html", file)
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/simulation.md")
	require.NoError(t, err)
	var printed, documented []string
	for line := range strings.Lines(out) {
		if printed = append(printed, strings.TrimSpace(line)); len(printed) > len(simulator.Policies) {
			break
		}
	}
	for line := range strings.Lines(string(page)) {
		if text, is := strings.CutPrefix(line, "    "); is && (len(documented) > 0 || strings.HasPrefix(text, "POLICY")) && len(documented) < len(printed) {
			documented = append(documented, strings.TrimSpace(text))
		}
	}
	assert.Equal(t, documented, printed)
	html, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(html), "<!doctype html>") || strings.HasPrefix(string(html), "<!DOCTYPE html>"))
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{file}, left, "no temporary file is left")
}

func TestTheFlags(t *testing.T) {
	out, _, err := run(t, example, "--policies", "OnDemand,Spot", "-o", "json", "--seed", "7", "--quiet")
	require.NoError(t, err)
	var result report.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	assert.EqualValues(t, 7, result.Seed)
	require.Len(t, result.Runs, 2)
	assert.Equal(t, "OnDemand", result.Runs[0].Policy)
	for want, args := range map[string][]string{
		`--output: Unsupported value: "yaml": want table, json or html`:                                                         {example, "-o", "yaml"},
		`--policies: Unsupported value: "berth": want some of Berth, TopologySpread, WebhookSubsets, SpotHedge, OnDemand, Spot`: {example, "--policies", "berth"},
		`--policies: Duplicate value: "Spot"`:                                                                                   {example, "--policies", "Spot,Spot"},
		`--policies: Required value: want at least one policy`:                                                                  {example, "--policies", ""},
		"nowhere.yaml":  {"nowhere.yaml"},
		"accepts 1 arg": {},
	} {
		_, _, err := run(t, args...)
		assert.ErrorContains(t, err, want)
	}
}

// kubectl runs the program under another name.
func TestTheNameOfThePlugin(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	cmd := New("/usr/local/bin/kubectl-berth-simulate", streams)
	cmd.SetArgs([]string{"--help"})
	cmd.SetOut(out)
	require.NoError(t, cmd.Execute())
	assert.Contains(t, out.String(), "kubectl berth simulate scenario.yaml --html result.html")
	assert.Contains(t, out.String(), "kubectl berth simulate SCENARIO")
	assert.Contains(t, out.String(), "Berth           the mixes of the scenario")
}

// The pictures of the page are of the figures that the program prints: make simulation-pictures draws them.
func TestThePicturesOfTheDocs(t *testing.T) {
	out, _, err := run(t, example, "--output", "json", "--quiet")
	require.NoError(t, err)
	r := &report.Result{}
	require.NoError(t, json.Unmarshal([]byte(out), r))
	for name, draw := range map[string]func(io.Writer) error{
		"comparison": func(w io.Writer) error { return report.Comparison(w, r) },
		"berth":      func(w io.Writer) error { return report.Timeline(w, r, "Berth") },
	} {
		var drawn strings.Builder
		require.NoError(t, draw(&drawn))
		file, err := os.ReadFile("../../docs/images/simulation-" + name + ".svg")
		require.NoError(t, err)
		assert.Equal(t, string(file), drawn.String(), name)
		assert.NoError(t, xml.Unmarshal(file, new(struct{})), "it is XML")
	}
}

// Runs may take minutes: an error that is known before them comes before them.
func TestAFileThatCannotBeWrittenIsRefusedFirst(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "x.html")
	out, _, err := run(t, example, "--html", missing)
	require.ErrorContains(t, err, "--html: the folder of "+missing)
	assert.Empty(t, out)
}
