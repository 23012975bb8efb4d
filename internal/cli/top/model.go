// SPDX-License-Identifier: Apache-2.0

package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

// maxPause bounds the pause after a read that took long.
const maxPause = time.Minute

// Messages of the program.
type (
	// readMsg is what a read of a scope returned.
	readMsg struct {
		*data
		err   error
		scope string
		seq   int
	}
	// dueMsg begins the next read.
	dueMsg struct{ seq int }
	// clockMsg comes every second.
	clockMsg time.Time
)

// mode is what the screen shows.
type mode int

const (
	inTable mode = iota
	inWorkload
	inHelp
	inFilter
)

// sorting is the order of the workloads.
type sorting int

const (
	byState sorting = iota
	byName
	byReplicas
	sortings
)

func (s sorting) String() string { return [...]string{"state", "name", "replicas"}[s] }

// model is the screen. Update and View are functions of it alone; only read does I/O.
type model struct {
	// read reads a scope; nil in tests.
	read     func(scope string, seq int) tea.Msg
	interval time.Duration
	now      time.Time
	width    int
	height   int
	theme    theme
	mode     mode
	paused   bool

	// scope is the namespace that is read, "" for all, and seq counts the reads.
	scope   string
	seq     int
	reading bool
	// data is the last that was read, of the scope shown.
	data  *data
	shown string
	// failure is why the data is not newer, since when.
	failure string
	since   time.Time

	// only is the namespace that is chosen among those of the data, "" for all.
	only   string
	filter string
	sort   sorting
	rows   []*overview.Workload
	table  list
	// open is the workload that is shown, by its identity; openRow is nil once it is gone.
	open    string
	openRow *overview.Workload
	slots   list
	help    list
}

func newModel(namespace string, interval time.Duration, color bool, now time.Time) model {
	return model{interval: interval, now: now, width: 80, height: 24, theme: theme{color: color}, scope: namespace, shown: namespace}
}

// Init begins the first read and the clock.
func (m model) Init() tea.Cmd {
	seq := m.seq
	return tea.Batch(tick(), func() tea.Msg { return dueMsg{seq} })
}

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return clockMsg(t) }) }

// Update is the model after a message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	return m, cmd
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(1, msg.Width), max(1, msg.Height)
	case clockMsg:
		m.now = time.Time(msg)
		return tick()
	case dueMsg:
		if msg.seq == m.seq && !m.paused {
			return m.begin()
		}
	case readMsg:
		return m.take(msg)
	case tea.KeyPressMsg:
		return m.press(msg)
	case tea.PasteMsg:
		if m.mode == inFilter {
			m.typeText(msg.Content)
		}
	}
	return nil
}

// begin begins a read.
func (m *model) begin() tea.Cmd {
	if m.read == nil || m.reading {
		return nil
	}
	m.seq++
	m.reading = true
	read, scope, seq := m.read, m.scope, m.seq
	return func() tea.Msg { return read(scope, seq) }
}

// take shows what was read. What is worse than before is not shown: the last data stays, with its age.
func (m *model) take(r readMsg) tea.Cmd {
	if r.seq != m.seq {
		return nil
	}
	m.reading = false
	if r.scope != m.scope { // the user has chosen another one meanwhile
		return m.begin()
	}
	took := time.Duration(0)
	switch {
	case r.err != nil:
		m.fail(r.err.Error())
	case m.data != nil && len(lost(m.data.missing, r.missing)) > 0:
		m.fail(strings.Join(r.problems, "; "))
		took = r.took
	default:
		m.data, m.shown, m.failure, took = r.data, r.scope, "", r.took
		m.refresh()
	}
	seq := m.seq
	return tea.Tick(pause(m.interval, took), func(time.Time) tea.Msg { return dueMsg{seq} })
}

// lost are the resources that are missing now and were not before.
func lost(before, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(r string) bool { return slices.Contains(before, r) })
}

func (m *model) fail(text string) {
	if m.failure == "" {
		m.since = m.now
	}
	m.failure = display.Inert(text, maxText)
}

// pause is the time from the end of a read to the next one.
func pause(interval, took time.Duration) time.Duration {
	return max(interval-took, min(9*took, maxPause))
}

// refresh chooses and sorts the rows, and keeps the cursor on its workload.
func (m *model) refresh() {
	if m.data == nil {
		return
	}
	at := ""
	if m.table.cursor < len(m.rows) {
		at = identity(m.rows[m.table.cursor])
	}
	m.rows, m.openRow = nil, nil
	for i := range m.data.overview.Workloads {
		w := &m.data.overview.Workloads[i]
		if m.open != "" && identity(w) == m.open {
			m.openRow = w
		}
		if (m.only == "" || m.only == w.Namespace) && matches(w, m.filter) {
			m.rows = append(m.rows, w)
		}
	}
	m.order()
	if i := slices.IndexFunc(m.rows, func(w *overview.Workload) bool { return identity(w) == at }); i >= 0 {
		m.table.cursor = i
	}
	m.table.clamp(len(m.rows))
	if m.openRow != nil {
		m.slots.clamp(len(m.openRow.Slots))
	}
}

// order sorts the rows; the overview comes by state.
func (m *model) order() {
	switch m.sort {
	case byName:
		slices.SortFunc(m.rows, func(a, b *overview.Workload) int { return overview.ByName(*a, *b) })
	case byReplicas:
		slices.SortFunc(m.rows, func(a, b *overview.Workload) int {
			return cmp.Or(cmp.Compare(b.Replicas, a.Replicas), overview.ByName(*a, *b))
		})
	}
}

// identity is the same for a workload in each read.
func identity(w *overview.Workload) string { return w.Namespace + "/" + w.ID }

// matches reports whether a text is in what the table shows of a workload.
func matches(w *overview.Workload, filter string) bool {
	if filter == "" {
		return true
	}
	all := strings.Join([]string{w.Namespace + "/" + w.Name, w.Revision, w.Kind, w.Role, w.Source, w.Reason, w.Message}, "\n")
	return strings.Contains(strings.ToLower(all), strings.ToLower(filter))
}

// namespaces are those of the data, sorted.
func (m *model) namespaces() []string {
	var all []string
	if m.data != nil {
		for i := range m.data.overview.Workloads {
			all = append(all, m.data.overview.Workloads[i].Namespace)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
