// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"berth.dev/berth/internal/mix/overview"
)

// helpLines are the help of the screen.
var helpLines = slices.Concat([]string{"SLOTS: a letter for each slot, in the order of the mix"}, legend(), strings.Split(
	`  +5 more slots, s4 a unit of 4 pods
DESIRED and ACTUAL are spot/on-demand, 2? is unknown type

KEYS
  ↑ ↓ j k pgup pgdn home end   scroll
  enter                        open the workload
  esc                          back; in the table: quit
  /                            filter; esc ends it
  n                            next namespace, or all
  s                            sort by state, name, replicas
  p                            pause, resume
  ?                            this help
  q ctrl+c                     quit`, "\n"))

// legend has a line for two letters.
func legend() (lines []string) {
	for pair := range slices.Chunk(overview.Letters, 2) {
		line := ""
		for _, l := range pair {
			line += "  " + l.Text + "  " + l.Means
			line = fit(line, max(32, ansi.StringWidth(line)))
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func (m *model) helpBody(height int) []string {
	first := max(0, min(m.help.cursor, len(helpLines)-height))
	return helpLines[first:min(len(helpLines), first+height)]
}

// foot is the last line: the filter while it is typed, else the keys.
func (m *model) foot() string {
	switch m.mode {
	case inFilter:
		return fmt.Sprintf("filter: %s_  (%d of %d)  enter keep  esc clear", m.filter, len(m.rows), m.total())
	case inWorkload, inHelp:
		return m.theme.style(faint, "esc back  ↑↓ scroll  p pause  q quit")
	}
	text := "q quit  ? help  enter open  / filter  n namespace  s sort: " + m.sort.String() + "  p pause"
	if m.filter != "" {
		text = fmt.Sprintf("filter %q: %d of %d  ", m.filter, len(m.rows), m.total()) + text
	}
	return m.theme.style(faint, text)
}

func (m *model) total() int {
	if m.data == nil {
		return 0
	}
	return len(m.data.overview.Workloads)
}
