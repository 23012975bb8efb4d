// SPDX-License-Identifier: Apache-2.0

package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

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
	switch s.State {
	case overview.Pending, overview.NoPod:
		return "·", waiting
	case overview.Borrowed:
		return "!", bad
	case overview.Departing:
		return "×", leaving
	case overview.Unknown:
		return "?", faint
	}
	letter, style := "s", spot
	if s.Type == "on-demand" {
		letter, style = "o", onDemand
	}
	if s.Floor {
		letter, style = strings.ToUpper(letter), style.Bold()
	}
	return letter, style
}

// ribbon is a cell for each slot. Where they do not fit, "+12" is how many more there are.
func (t theme) ribbon(w *overview.Workload, width int) string {
	total := len(w.Slots) + w.HiddenSlots
	shown, rest := len(w.Slots), ""
	if total > width || w.HiddenSlots > 0 {
		shown = max(0, min(shown, width-1))
		for shown > 0 && shown+len(more(total-shown)) > width {
			shown--
		}
		rest = more(total - shown)
	}
	var out strings.Builder
	for i := range w.Slots[:shown] {
		letter, style := cell(&w.Slots[i])
		out.WriteString(t.style(style, letter))
	}
	return fit(out.String()+rest, width)
}

// fit cuts a text to a width, and pads it.
func fit(text string, width int) string {
	width = max(0, width)
	if ansi.StringWidth(text) > width {
		text = ansi.Truncate(text, width, "…")
	}
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}
