// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/overview"
)

// theme is how the screen emphasizes. No meaning is in a color alone.
type theme struct{ color bool }

// The styles of the screen. Colors are those that users choose for their terminal.
var (
	bold     = ansi.Style{}.Bold()
	faint    = ansi.Style{}.Faint()
	selected = ansi.Style{}.Reverse(true)
	good     = ansi.Style{}.ForegroundColor(ansi.Green)
	waiting  = ansi.Style{}.ForegroundColor(ansi.Yellow)
	bad      = ansi.Style{}.ForegroundColor(ansi.Red).Bold()
	leaving  = ansi.Style{}.ForegroundColor(ansi.Magenta)
	spot     = ansi.Style{}.ForegroundColor(ansi.Cyan)
	onDemand = ansi.Style{}.ForegroundColor(ansi.Blue)
)

// style emphasizes a text.
func (t theme) style(s ansi.Style, text string) string {
	if !t.color || text == "" {
		return text
	}
	return s.Styled(text)
}

// cell is the letter of a slot and its style.
func cell(s *overview.Slot) (string, ansi.Style) {
	return s.Letter(), styleOf(s)
}

func styleOf(s *overview.Slot) ansi.Style {
	switch s.State {
	case overview.Pending, overview.NoPod:
		return waiting
	case overview.Borrowed:
		return bad
	case overview.Departing:
		return leaving
	case overview.Unknown:
		return faint
	}
	switch {
	case s.Floor:
		return onDemand.Bold()
	case s.Type == capacity.OnDemand.String():
		return onDemand
	}
	return spot
}

// ribbon is a cell for each slot. Where they do not fit, "+12" is how many more there are. A unit of pods is a block: its letter and how
// many pods it has.
func (t theme) ribbon(w *overview.Workload, width int) string {
	total := len(w.Slots) + w.HiddenSlots
	var shown int
	var ends []int // where the cells end
	for i := range w.Slots {
		end := cellWidth(w, i)
		if i > 0 {
			end += ends[i-1]
		}
		ends = append(ends, end)
	}
	end := func(n int) int {
		if n == 0 {
			return 0
		}
		return ends[n-1]
	}
	rest := ""
	if shown = len(w.Slots); end(shown) > width || w.HiddenSlots > 0 {
		for shown > 0 && end(shown)+len(more(total-shown)) > width {
			shown--
		}
		rest = more(total - shown)
	}
	var out strings.Builder
	for i := range w.Slots[:shown] {
		letter, style := cell(&w.Slots[i])
		text := letter + w.Slots[i].Block()
		out.WriteString(t.style(style, text) + strings.Repeat(" ", cellWidth(w, i)-ansi.StringWidth(text)))
	}
	return fit(out.String()+rest, width)
}

// cellWidth is the width of a cell. Those of units have a space behind them.
func cellWidth(w *overview.Workload, i int) int {
	if w.Units == 0 {
		return 1
	}
	return 2 + len(w.Slots[i].Block())
}

// fit cuts a text to a width, and pads it.
func fit(text string, width int) string {
	width = max(0, width)
	if ansi.StringWidth(text) > width {
		text = ansi.Truncate(text, width, "…")
	}
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}
