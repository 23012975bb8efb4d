// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/mix/overview"
)

// columns are the widths of the columns of the table, 0 for one that the terminal has no place for.
type columns struct {
	namespaces                          bool
	name, desired, actual, slots, cause int
}

const (
	okWidth     = 3
	countWidth  = 7
	wideCount   = 9
	markWidth   = 2
	maxRibbon   = 80
	maxNameCell = 60
)

// columns returns the columns for the width of the terminal.
func (m *model) columns() columns {
	c := columns{namespaces: m.shown == "" && m.only == "", actual: countWidth, desired: countWidth}
	if m.width < 60 {
		c.desired = 0
	}
	if m.width >= 100 {
		c.actual, c.desired = wideCount, wideCount
	}
	rest := m.width - markWidth - okWidth - c.actual - 2
	if c.desired > 0 {
		rest -= c.desired + 1
	}
	switch {
	case m.width >= 100:
		c.name, c.slots = min(maxNameCell, rest*2/5), min(maxRibbon, rest*3/10)
		c.cause = rest - c.name - c.slots - 2
	default:
		c.name = rest / 2
		c.slots = rest - c.name - 1
	}
	return c
}

func (c columns) header() string {
	name := "WORKLOAD"
	if c.namespaces {
		name = "NAMESPACE/WORKLOAD"
	}
	return c.join("", name, "OK", "DESIRED", "ACTUAL", "SLOTS", "WHY NOT")
}

// row is the line of a workload.
func (c columns) row(t theme, w *overview.Workload) string {
	name := label(w)
	if c.namespaces {
		name = w.Namespace + "/" + name
	}
	satisfied := "?"
	switch {
	case w.Satisfied.Is(true):
		satisfied = t.style(good, "yes")
	case w.Satisfied.Is(false):
		satisfied = t.style(bad, "no")
	}
	return c.join("", name, satisfied, w.Desired.String(), w.Actual.String(), t.ribbon(w, c.slots), w.Why())
}

func (c columns) join(mark, name, ok, desired, actual, slots, cause string) string {
	cells := []string{fit(mark, markWidth-1), fit(name, c.name), fit(ok, okWidth)}
	for _, cell := range []struct {
		width int
		text  string
	}{{c.desired, desired}, {c.actual, actual}, {c.slots, slots}, {c.cause, cause}} {
		if cell.width > 0 {
			cells = append(cells, fit(cell.text, cell.width))
		}
	}
	return strings.Join(cells, " ")
}

// label names a workload by its revision: a rollout has a row for each.
func label(w *overview.Workload) string {
	name := w.Name
	switch {
	case w.Bare:
		name = "Pod/* of " + w.Name
	case w.Revision != "":
		name = w.Revision
	}
	if w.Role != "" {
		name += " role " + w.Role
	}
	return name
}

// tableBody is the table, as much of it as a height shows.
func (m *model) tableBody(height int) []string {
	c := m.columns()
	lines := []string{m.theme.style(bold, c.header())}
	if len(m.rows) == 0 {
		return append(lines, m.empty())
	}
	first, end := list{m.table.cursor}.window(len(m.rows), height-1)
	for i := first; i < end; i++ {
		line := c.row(m.theme, m.rows[i])
		if i == m.table.cursor {
			line = m.marked(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// marked is the line of the cursor.
func (m *model) marked(line string) string {
	return m.theme.style(selected, ">") + strings.TrimPrefix(line, " ")
}

// unknownWorkloads is shown in place of rows where the pods or the mixes could not be read.
const unknownWorkloads = "The governed workloads are unknown."

func (m *model) empty() string {
	if m.filter != "" {
		return fmt.Sprintf("No workload matches %q.", m.filter)
	}
	if m.data.overview.Totals.Workloads.Unknown() {
		return unknownWorkloads
	}
	return "No governed workloads found."
}
