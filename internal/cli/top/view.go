// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

// roomy is the height from which the head has the nodes.
const roomy = 16

func more(n int) string { return fmt.Sprint("+", n) }

// View is the screen of the model.
func (m model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	return v
}

// frame is the screen: head, body and foot, never larger than the terminal.
func (m *model) frame() string {
	head := m.head()
	height := max(0, m.height-len(head)-1)
	var body []string
	switch {
	case m.mode == inHelp:
		body = m.helpBody(height)
	case m.mode == inWorkload:
		body = m.workloadBody(height)
	case m.data == nil:
		body = []string{"Reading…"}
	default:
		body = m.tableBody(height)
	}
	for len(body) < height {
		body = append(body, "")
	}
	lines := slices.Concat(head, body[:height])
	if len(lines) >= m.height {
		lines = lines[:m.height-1]
	}
	lines = append(lines, m.foot())
	for i := range lines {
		lines[i] = strings.TrimRight(ansi.Truncate(lines[i], m.width, "…"), " ")
	}
	return strings.Join(lines, "\n")
}

// bodyHeight is the number of lines between head and foot that scroll.
func (m *model) bodyHeight() int { return max(1, m.height-len(m.head())-2) }

// plain is the whole overview as text.
func plain(d *data, namespace string, width int) string {
	m := newModel(namespace, 0, false, d.at)
	m.width, m.data = width, d
	m.refresh()
	head := slices.Concat(m.totals(), m.nodes(), []string{""})
	lines := slices.Concat(head, []string{m.columns().header()})
	for _, w := range m.rows {
		lines = append(lines, m.columns().row(m.theme, w))
	}
	switch {
	case len(m.rows) > 0:
	case d.overview.Totals.Workloads.Unknown():
		lines = slices.Concat(head, []string{unknownWorkloads})
	default:
		lines = slices.Concat(head, []string{"No governed workloads found in " + printers.InNamespace(namespace) + "."})
	}
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(strings.TrimRight(ansi.Truncate(line, width, "…"), " ") + "\n")
	}
	return out.String()
}

// head is the text above the table: where, how old, totals, nodes, and what went wrong.
func (m *model) head() []string {
	lines := pack(m.width, m.title()...)
	if m.data != nil {
		lines = append(lines, m.totals()...)
		if m.height >= roomy {
			lines = append(lines, m.nodes()...)
		}
		for _, p := range m.data.problems {
			lines = append(lines, m.theme.style(waiting, "Warning: "+p))
		}
	}
	if m.failure != "" {
		text := fmt.Sprintf("ERROR for %s: %s", age(m.now.Sub(m.since)), m.failure)
		for _, line := range wrap(text, m.width, 2) {
			lines = append(lines, m.theme.style(bad, line))
		}
	}
	return append(lines, "")
}

func (m *model) title() []string {
	parts := []string{m.theme.style(bold, "kubectl berth top")}
	switch {
	case m.only != "":
		parts = append(parts, "namespace "+m.only)
	case m.shown != "":
		parts = append(parts, "namespace "+m.shown)
	default:
		parts = append(parts, "all namespaces")
	}
	if m.data != nil {
		parts = append(parts, "read "+age(m.now.Sub(m.data.at))+" ago")
	}
	if m.paused {
		return append(parts, m.theme.style(waiting, "PAUSED"))
	}
	if m.scope != m.shown {
		return append(parts, "reading "+printers.InNamespace(m.scope))
	}
	return append(parts, "every "+display.Short(m.interval))
}

// totals are the sums of all workloads, whatever the filter is.
func (m *model) totals() []string {
	t := &m.data.overview.Totals
	lines := pack(m.width, fmt.Sprint("mixes ", t.Mixes), fmt.Sprintf("workloads %s (%s satisfied)", t.Workloads, t.Satisfied),
		fmt.Sprint("replicas ", t.Replicas))
	counts := []string{
		m.theme.style(spot, fmt.Sprintf("spot %s of %s", spotOf(t.Actual), spotOf(t.Desired))),
		m.theme.style(onDemand, fmt.Sprintf("on-demand %s of %s", onDemandOf(t.Actual), onDemandOf(t.Desired))),
	}
	for _, c := range []struct {
		n     overview.Maybe[int]
		name  string
		style ansi.Style
	}{
		{overview.Part(t.Actual, func(s overview.Split) int { return s.Unknown }), "on unknown", bad},
		{t.Borrowed, "borrowed", bad},
		{t.Pending, "pending", waiting},
		{t.Departing, "departing", leaving},
	} {
		if n, _ := c.n.Get(); n > 0 {
			counts = append(counts, m.theme.style(c.style, fmt.Sprint(c.name, " ", c.n)))
		}
	}
	return append(lines, pack(m.width, counts...)...)
}

func spotOf(s overview.Maybe[overview.Split]) overview.Maybe[int] {
	return overview.Part(s, func(s overview.Split) int { return s.Spot })
}

func onDemandOf(s overview.Maybe[overview.Split]) overview.Maybe[int] {
	return overview.Part(s, func(s overview.Split) int { return s.OnDemand })
}

// age is a time in words: whole seconds below a minute.
func age(d time.Duration) string {
	return printers.Age(time.Unix(0, 0).Add(max(0, d)), time.Unix(0, 0))
}

// pack puts parts on lines of a width, two spaces apart.
func pack(width int, parts ...string) (lines []string) {
	line := ""
	for _, p := range parts {
		switch {
		case line == "":
			line = p
		case ansi.StringWidth(line)+2+ansi.StringWidth(p) <= width:
			line += "  " + p
		default:
			lines, line = append(lines, line), p
		}
	}
	return append(lines, line)
}

// wrap breaks a text into at most so many lines.
func wrap(text string, width, most int) []string {
	lines := strings.Split(ansi.Wrap(text, max(1, width), ""), "\n")
	if len(lines) > most {
		lines[most-1] = ansi.Truncate(strings.Join(lines[most-1:], " "), width, "…")
		lines = lines[:most]
	}
	return lines
}
