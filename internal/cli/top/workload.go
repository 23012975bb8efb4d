// SPDX-License-Identifier: Apache-2.0

package top

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/mix/overview"
)

// workloadBody is the workload that is open: its numbers, its ribbon and a line for each slot.
func (m *model) workloadBody(height int) []string {
	w := m.openRow
	if w == nil {
		return []string{"This workload is gone. Press esc to return."}
	}
	lines := pack(m.width, m.theme.style(bold, w.Namespace+"/"+label(w)), w.Kind, w.Name)
	lines = append(lines, pack(m.width, w.Source, w.Rule, fmt.Sprint("floor ", w.Floor))...)
	lines = append(lines, pack(m.width, replicas(w), "desired "+w.Desired.String(), "actual "+w.Actual.String(),
		fmt.Sprint("borrowed ", w.Borrowed), fmt.Sprint("pending ", w.Pending), fmt.Sprint("departing ", w.Departing))...)
	switch {
	case w.Satisfied.Is(true):
		lines = append(lines, m.theme.style(good, "Satisfied"))
	case w.Satisfied.Unknown():
		lines = append(lines, "Unknown whether it is satisfied")
	default:
		for _, line := range wrap("Not satisfied: "+w.Why(), m.width, 2) {
			lines = append(lines, m.theme.style(bad, line))
		}
	}
	lines = append(lines, m.theme.ribbon(w, m.width), "")
	c := m.slotColumns()
	lines = append(lines, m.theme.style(bold, c.header()))
	reason := m.slotReason()
	first, end := m.slots.window(len(w.Slots), height-len(lines)-len(reason))
	for i := first; i < end; i++ {
		line := c.row(m.theme, &w.Slots[i])
		if i == m.slots.cursor {
			line = m.marked(line)
		}
		lines = append(lines, line)
	}
	return append(lines, reason...)
}

// replicas is how many there are, and of what.
func replicas(w *overview.Workload) string {
	if w.Parts == (overview.Parts{Role: w.Role}) {
		return fmt.Sprint("replicas ", w.Replicas)
	}
	return w.Words(w.Replicas)
}

// slotReason is why the slot of the cursor is not in place, in the lines below the slots.
func (m *model) slotReason() []string {
	w := m.openRow
	if m.slots.cursor >= len(w.Slots) {
		return nil
	}
	s := &w.Slots[m.slots.cursor]
	text := s.Reason
	if s.Unit != "" {
		text = strings.TrimSuffix(fmt.Sprintf("unit %s of pods %s; %s", s.Unit, strings.Join(s.PodNames(), ", "), text), "; ")
	}
	if text == "" {
		return nil
	}
	return append([]string{""}, wrap(fmt.Sprintf("slot %d: %s", s.Slot, text), m.width, 3)...)
}

// slotColumns are the widths of the columns of slots, 0 for one that the terminal has no place for.
type slotColumns struct{ wants, state, pod, node, nodeType, reason int }

const (
	slotWidth = 7
	typeWidth = 9
)

func (m *model) slotColumns() slotColumns {
	c := slotColumns{wants: typeWidth, state: typeWidth}
	if m.width < 60 {
		c.state = 0
	}
	if m.width >= 90 {
		c.nodeType = typeWidth
	}
	rest := m.width - markWidth - slotWidth - 2
	for _, used := range []int{c.wants, c.state, c.nodeType} {
		if used > 0 {
			rest -= used + 1
		}
	}
	if m.width >= 110 {
		c.reason = rest / 3
		rest -= c.reason + 1
	}
	c.pod = rest * 3 / 5
	c.node = rest - c.pod - 1
	return c
}

func (c slotColumns) header() string {
	return c.join("SLOT", "REQUIRES", "STATE", "POD", "NODE", "NODE TYPE", "REASON")
}

func (c slotColumns) row(t theme, s *overview.Slot) string {
	letter, style := cell(s)
	pod := s.Pod
	if more := len(s.Pods) - 1; more > 0 {
		pod = fmt.Sprintf("%s +%d", s.Pod, more)
	}
	return c.join(fmt.Sprintf("%5d ", s.Slot)+t.style(style, letter), s.Type, string(s.State), pod, s.Node, s.NodeType, s.Reason)
}

func (c slotColumns) join(slot, wants, state, pod, node, nodeType, reason string) string {
	cells := []string{" ", fit(slot, slotWidth)}
	for _, cell := range []struct {
		width int
		text  string
	}{{c.wants, wants}, {c.state, state}, {c.pod, pod}, {c.node, node}, {c.nodeType, nodeType}, {c.reason, reason}} {
		if cell.width > 0 {
			cells = append(cells, fit(cell.text, cell.width))
		}
	}
	return strings.Join(cells, " ")
}
