// SPDX-License-Identifier: Apache-2.0

package top

import (
	"slices"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"berth.dev/berth/internal/kube/display"
)

// maxFilter is the length of the filter in bytes.
const maxFilter = 80

// press is what a key does.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	name := key.String()
	if name == "ctrl+c" {
		return tea.Quit
	}
	if m.mode == inFilter {
		m.editFilter(name, key.Text)
		return nil
	}
	if m.scroll(name) {
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "esc":
		return m.back()
	case "?":
		m.toggle(inHelp)
	case "p":
		return m.togglePause()
	}
	if m.mode == inTable {
		return m.pressInTable(name)
	}
	return nil
}

func (m *model) pressInTable(name string) tea.Cmd {
	switch name {
	case "enter":
		if m.table.cursor < len(m.rows) {
			m.open, m.slots, m.mode = identity(m.rows[m.table.cursor]), list{}, inWorkload
			m.refresh()
		}
	case "/":
		m.mode = inFilter
	case "s":
		m.sort = (m.sort + 1) % sortings
		m.refresh()
	case "n":
		return m.nextNamespace()
	}
	return nil
}

// back leaves what is open; the table itself is left by quitting.
func (m *model) back() tea.Cmd {
	switch {
	case m.mode == inHelp && m.open != "":
		m.mode = inWorkload
	case m.mode != inTable:
		m.mode, m.open, m.openRow = inTable, "", nil
	default:
		return tea.Quit
	}
	return nil
}

func (m *model) toggle(to mode) {
	if m.mode == to {
		m.back()
		return
	}
	m.mode, m.help = to, list{}
}

func (m *model) togglePause() tea.Cmd {
	m.paused = !m.paused
	if m.paused {
		return nil
	}
	return m.begin()
}

// scroll moves in what is shown, and reports whether the key is one for that.
func (m *model) scroll(name string) bool {
	l, n := &m.table, len(m.rows)
	page := max(1, m.bodyHeight()-1)
	switch m.mode {
	case inHelp:
		l, n = &m.help, len(helpLines)
	case inWorkload:
		l, n = &m.slots, 0
		if m.openRow != nil {
			n = len(m.openRow.Slots)
		}
	}
	move, ok := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -n, "g": -n, "end": n, "G": n,
	}[name]
	if ok {
		l.cursor += move
		l.clamp(n)
	}
	return ok
}

// nextNamespace shows the next namespace of the data, and all after the last. The first time it reads all, if the command is about one;
// while that has not succeeded, it returns to the one.
func (m *model) nextNamespace() tea.Cmd {
	switch {
	case m.scope != m.shown:
		m.scope, m.only = m.shown, ""
		return m.begin()
	case m.scope != "":
		m.scope, m.only = "", ""
		return m.begin()
	}
	names := m.namespaces()
	next := slices.Index(names, m.only) + 1
	if m.only = ""; next < len(names) {
		m.only = names[next]
	}
	m.table = list{}
	m.refresh()
	return nil
}

// editFilter is what a key does to the filter.
func (m *model) editFilter(name, text string) {
	switch name {
	case "enter":
		m.mode = inTable
	case "esc":
		m.mode, m.filter = inTable, ""
	case "ctrl+u":
		m.filter = ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	default:
		m.typeText(text)
		return
	}
	m.refresh()
}

// typeText adds to the filter.
func (m *model) typeText(text string) {
	if text = display.Inert(text, maxFilter); len(m.filter)+len(text) <= maxFilter {
		m.filter += text
	}
	m.refresh()
}

// list is a cursor in lines.
type list struct{ cursor int }

func (l *list) clamp(n int) { l.cursor = max(0, min(l.cursor, n-1)) }

// window is the part of n lines that a height shows, with the cursor in it.
func (l list) window(n, height int) (first, end int) {
	first = max(0, min(l.cursor-height/2, n-height))
	return first, min(n, first+max(0, height))
}
