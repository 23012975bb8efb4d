// SPDX-License-Identifier: Apache-2.0

// Package gates lists the places at which the robustness suite has a program fail, and the actions at each.
package gates

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/robustness/faultgate"
	"berth.dev/berth/test/robustness/history"
)

// Scenario is what has the program reach a gate.
type Scenario string

// Scenarios. Each has a workload of its own with four replicas. Its mix changes afterwards, and replicas move.
const (
	Placed   Scenario = "pods are placed"
	Gated    Scenario = "pods with the scheduling gate are placed"
	NoSpot   Scenario = "gated pods find no spot node, and are deleted for on-demand ones"
	Moved    Scenario = "the mix changes, and replicas move"
	Released Scenario = "the mix changes, and replicas are released before they are evicted"
	Repaired Scenario = "a user overwrites an annotation of a placed pod"
	Led      Scenario = "the leader is killed, and another controller leads"
)

// Gate is a place in a program. The build for the suite has a statement there, before the text of the next step.
type Gate struct {
	Program  history.Program
	Name     string
	Scenario Scenario
	File     string
	Next     string
	// Fails is what the program does where the gate fails, Answered is set after a request. With neither the place has no error.
	Fails    string
	Answered string
	// First is another gate that must fail before this one is reached.
	First string
}

// OfMoves reports whether a change of the mix has the program reach the gate.
func (g *Gate) OfMoves() bool { return g.Scenario == Moved || g.Scenario == Released }

// lost is the statement of a gate after a request, whose error is in err.
const lost = "err = faultgate.Answer(GATE, err)"

// Actions are those that make sense at a gate.
func (g *Gate) Actions() []faultgate.Action {
	all := []faultgate.Action{faultgate.Kill, faultgate.Stop}
	switch {
	case g.Fails != "":
		all = append(all, faultgate.Fail)
	case g.Answered != "":
		all = append(all, faultgate.Lose)
	}
	return all
}

// statement is what is inserted.
func (g *Gate) statement() string {
	text := "_ = faultgate.At(GATE)"
	switch {
	case g.Fails != "":
		text = "if err := faultgate.At(GATE); err != nil { " + g.Fails + " }"
	case g.Answered != "":
		text = g.Answered
	}
	return strings.ReplaceAll(text, "GATE", strconv.Quote(g.Name))
}

// Replacements build all gates into a program.
func Replacements(p history.Program) (list []builds.Replacement) {
	var files []string
	for i := range All {
		g := &All[i]
		if g.Program != p {
			continue
		}
		if !slices.Contains(files, g.File) {
			files = append(files, g.File)
			list = append(list, builds.Replacement{
				File: g.File, Old: "import (\n", New: "import (\n\t\"berth.dev/berth/test/robustness/faultgate\"\n",
			})
		}
		list = append(list, builds.Replacement{File: g.File, Old: g.Next, New: "\t" + g.statement() + "\n" + g.Next})
	}
	return list
}

// Cell is a gate with an action, and what came of it.
type Cell struct {
	*Gate
	Action faultgate.Action
	// Name is that of the workload.
	Name string
	// Acted is how often the program acted, Visits how often it reached the gate meanwhile.
	Acted, Visits int
	// Exact is set once the workload is exactly in its mix. Violations are those that name it.
	Exact      bool
	Violations []string
}

// Cells are all gates with each of their actions, those of the two programs in turn: the scheduler is tested while a controller has yet to
// lead.
func Cells() (list []Cell) {
	var controllers []Cell
	for i := range All {
		for _, a := range All[i].Actions() {
			c := Cell{Gate: &All[i], Action: a, Name: fmt.Sprintf("g%02d-%s", i, a)}
			if c.Program == history.Controller {
				controllers = append(controllers, c)
			} else {
				list = append(list, c)
			}
		}
	}
	for i := range controllers {
		list = slices.Insert(list, min(2*i+1, len(list)), controllers[i])
	}
	return list
}

// Count counts the visits of a cell, which are those since the gate was armed.
func (c *Cell) Count(visits []faultgate.Visit) {
	c.Acted, c.Visits = 0, 0
	for _, v := range visits {
		if v.Gate != c.Gate.Name {
			continue
		}
		c.Visits++
		if v.Action == c.Action {
			c.Acted++
		}
	}
}

// Verdict is "" for a cell that is as it should be: the program acted once, and the workload got its mix without a violation.
func (c *Cell) Verdict() string {
	switch {
	case c.Acted == 0:
		return "not visited"
	case c.Acted > 1:
		return fmt.Sprintf("acted %d times", c.Acted)
	case len(c.Violations) > 0:
		return "a promise is broken"
	case !c.Exact:
		return "the mix is not exact"
	}
	return ""
}

// Table shows the cells: a row for each gate, a column for each action.
func Table(cells []Cell) string {
	actions := []faultgate.Action{faultgate.Kill, faultgate.Stop, faultgate.Fail, faultgate.Lose}
	var out strings.Builder
	out.WriteString("| program | gate | kill | stop | fail | lose |\n|---|---|---|---|---|---|\n")
	for i := range All {
		g := &All[i]
		fmt.Fprintf(&out, "| %s | %s |", g.Program, g.Name)
		for _, a := range actions {
			text := "–"
			for j := range cells {
				if c := &cells[j]; c.Gate == g && c.Action == a {
					text = fmt.Sprintf("%d visits, %s", c.Visits, orKept(c.Verdict()))
				}
			}
			fmt.Fprintf(&out, " %s |", text)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func orKept(verdict string) string {
	if verdict == "" {
		return "kept"
	}
	return strings.ToUpper(verdict)
}
