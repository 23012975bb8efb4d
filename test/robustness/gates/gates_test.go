// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/robustness/faultgate"
	"berth.dev/berth/test/robustness/history"
)

// A text that moves is found here, before a build.
func TestEveryGateIsBeforeATextThatIsThereOnce(t *testing.T) {
	root, err := cluster.RepoRoot()
	require.NoError(t, err)
	names := map[string]bool{}
	for i := range All {
		g := &All[i]
		b, err := os.ReadFile(filepath.Join(root, g.File))
		require.NoError(t, err)
		assert.Equal(t, 1, strings.Count(string(b), g.Next), "%s: %q", g.Name, g.Next)
		assert.False(t, names[g.Name], "two gates are %s", g.Name)
		names[g.Name] = true
	}
	for i := range All {
		assert.True(t, All[i].First == "" || names[All[i].First], All[i].First)
	}
}

// A text that moves into another function may be there once, and its gate is wrong there.
func TestProgramsWithGatesCompile(t *testing.T) {
	root, err := cluster.RepoRoot()
	require.NoError(t, err)
	for _, p := range []history.Program{history.Scheduler, history.Controller} {
		require.NoError(t, builds.CompileMutant(t.Context(), root, os.Stderr, string(p), Replacements(p)...))
	}
}

func TestAGateHasTheActionsOfItsPlace(t *testing.T) {
	const kill, stop = faultgate.Kill, faultgate.Stop
	for _, tc := range []struct {
		gate Gate
		want []faultgate.Action
		text string
	}{
		{Gate{Name: "x"}, []faultgate.Action{kill, stop}, `_ = faultgate.At("x")`},
		{
			Gate{Name: "x", Fails: "return err"},
			[]faultgate.Action{kill, stop, faultgate.Fail},
			`if err := faultgate.At("x"); err != nil { return err }`,
		},
		{Gate{Name: "x", Answered: lost}, []faultgate.Action{kill, stop, faultgate.Lose}, `err = faultgate.Answer("x", err)`},
	} {
		assert.Equal(t, tc.want, tc.gate.Actions())
		assert.Equal(t, tc.text, tc.gate.statement())
	}
}

// A program has its own gates only, and each changed file imports the package once.
func TestReplacementsAreThoseOfTheProgram(t *testing.T) {
	n := 0
	for _, p := range []history.Program{history.Scheduler, history.Controller} {
		imports := map[string]int{}
		for _, r := range Replacements(p) {
			if r.Old == "import (\n" {
				imports[r.File]++
			} else {
				n++
			}
			assert.True(t, strings.HasSuffix(r.New, r.Old) || r.Old == "import (\n", "the next step stays")
		}
		for file, times := range imports {
			assert.Equal(t, 1, times, file)
		}
	}
	assert.Len(t, All, n)
}

func TestACellThatIsNotAsItShouldBeIsReported(t *testing.T) {
	reached := func(n int, a faultgate.Action) (list []faultgate.Visit) {
		list = append(list, faultgate.Visit{Gate: "another", Action: a}, faultgate.Visit{Gate: All[0].Name})
		for range n {
			list = append(list, faultgate.Visit{Gate: All[0].Name, Action: a})
		}
		return list
	}
	for want, tc := range map[string]struct {
		visits []faultgate.Visit
		cell   Cell
	}{
		"":                       {reached(1, faultgate.Kill), Cell{Exact: true}},
		"not visited":            {reached(0, faultgate.Kill), Cell{Exact: true}},
		"acted 2 times":          {reached(2, faultgate.Kill), Cell{Exact: true}},
		"the mix is not exact":   {reached(1, faultgate.Kill), Cell{}},
		"a promise is broken":    {reached(1, faultgate.Kill), Cell{Exact: true, Violations: []string{"x"}}},
		"not visited, otherwise": {reached(1, faultgate.Stop), Cell{Exact: true}},
	} {
		c := tc.cell
		c.Gate, c.Action = &All[0], faultgate.Kill
		c.Count(tc.visits)
		verdict, _, _ := strings.Cut(want, ", ")
		assert.Equal(t, verdict, c.Verdict(), want)
	}
}

func TestTheTableHasACellForEachAction(t *testing.T) {
	cells := Cells()
	names := map[string]bool{}
	var order []string
	for i := range cells {
		names[cells[i].Name] = true
		order = append(order, cells[i].Name)
	}
	assert.Len(t, names, len(cells))
	assert.Equal(t, []string{"g00-kill", "g12-kill", "g00-stop", "g12-stop"}, order[:4])
	text := Table(cells)
	assert.Equal(t, len(cells), strings.Count(text, "NOT VISITED"))
	assert.Equal(t, 4*len(All)-len(cells), strings.Count(text, " – "))
	cells[0].Acted, cells[0].Visits, cells[0].Exact = 1, 3, true
	assert.Contains(t, Table(cells), "| berth-scheduler | after PreFilter | 3 visits, kept | 0 visits, NOT VISITED |")
}
