// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/overview"
)

const (
	// firstMoves is how long a page waits for the events about moves: without them, the stream brings them. movesTimeout bounds reading
	// them, so that the other parts of an open page are not late.
	firstMoves, movesTimeout = 500 * time.Millisecond, 3 * time.Second
	// movesBusy is the time between two readings of these events while replicas are moved, movesQuiet while none is.
	movesBusy, movesQuiet = 4 * time.Second, 30 * time.Second
	// mostMoves bounds the moves of a page.
	mostMoves = 50
)

// movesRead are the events about the moves of a workload, or why there are none.
type movesRead struct {
	events  []overview.MoveEvent
	problem string
}

// movesReader reads the events about the moves of a workload for one open page, with the rights of its user.
type movesReader struct {
	reports Reports
	turns   *turns
	now     func() time.Time
	user    string
	// path and query are those of the page.
	path  []string
	query url.Values
	// read is what was read last at a time, of a workload that had these pods.
	read *movesRead
	at   time.Time
	of   uint64
}

// movesOf reads for a page, and is nil for one that shows no moves.
func (c *Console) movesOf(r *http.Request, at *url.URL) *movesReader {
	path, err := pathOfURL(at)
	if err != nil || c.reports == nil || len(path) != 4 || path[0] != "workloads" {
		return nil
	}
	return &movesReader{reports: c.reports, turns: c.reading, now: c.hub.now, user: userOf(r), path: path[1:], query: at.Query()}
}

// in returns a state with the moves. It reads them if the time has come.
func (m *movesReader) in(ctx context.Context, s *state, timeout time.Duration) *state {
	if m == nil || s.Reading == nil {
		return s
	}
	w := workloadAt(m.path, m.query, s)
	if w == nil || w.Name == "" { // pods without a controller are not moved
		return s
	}
	if pods := podsHash(w); m.due(w, pods, s.at) {
		m.at, m.of = m.now(), pods
		m.load(ctx, w, timeout)
	}
	own := *s
	own.moves = m.read
	return &own
}

// due reports whether there may be other events: often while a replica is moved, or right after its pods have changed.
func (m *movesReader) due(w *overview.Workload, pods uint64, at time.Time) bool {
	pause := movesQuiet
	if m.read == nil || pods != m.of || !w.Satisfied.Is(true) || overview.MovesOf(w, m.read.events, at).Running() > 0 {
		pause = movesBusy
	}
	return m.at.IsZero() || m.now().Sub(m.at) >= pause
}

func (m *movesReader) load(ctx context.Context, w *overview.Workload, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done, err := m.turns.take(ctx, m.user, "other reports")
	if err != nil {
		return // what was read before stays
	}
	defer done()
	events, err := m.reports.Moves(ctx, w.Kind, types.NamespacedName{Namespace: w.Namespace, Name: w.Name})
	switch {
	case err == nil:
		m.read = &movesRead{events: events}
	case ctx.Err() == nil:
		m.read = &movesRead{problem: plainly(err)}
	}
}

// podsHash is another one when a workload has other pods, or they have other nodes.
func podsHash(w *overview.Workload) uint64 {
	texts := make([]string, 0, 2*len(w.Slots))
	for i := range w.Slots {
		texts = append(texts, w.Slots[i].Pod, w.Slots[i].Node)
	}
	return hash(texts...)
}

// moveView is a move as the page shows it. All texts are inert.
type moveView struct {
	ID, Pod, PodURL, From, To string
	State                     badge
	// Runs is set while the move is not over. After that, its steps are closed, and Ended is when it ended.
	Runs  bool
	Ended string
	Steps []stepView
}

// stepView is a step of a move.
type stepView struct {
	At, Clock, Title                 string
	Badge                            badge
	Pod, PodURL, Node, NodeURL, Text string
	Type                             value
}

// movesPart shows the moves of a workload, of which a row is one.
func movesPart(w *overview.Workload, s *state) *part {
	v := struct {
		Problem          string
		Unread, None     bool
		Combined, Hidden int
	}{Unread: s.moves == nil}
	list := &part{id: "moves"}
	if s.moves != nil {
		v.Problem = inert(s.moves.problem)
		moves := overview.MovesOf(w, s.moves.events, s.at)
		v.Combined, v.Hidden, v.None = moves.Combined, max(0, len(moves.All)-mostMoves), len(moves.All) == 0
		for i := range moves.All[:len(moves.All)-v.Hidden] {
			shown := moveViewOf(w, &moves.All[i], s)
			list.rows = append(list.rows, newRow(shown.ID, render("move", shown)))
		}
	}
	list.before, list.after = render("moves-before", v), render("moves-after", v)
	return list
}

func moveViewOf(w *overview.Workload, m *overview.Move, s *state) *moveView {
	v := &moveView{
		ID: "move-" + strconv.FormatUint(hash(m.Key), 36), Pod: m.Pod, From: m.From, To: m.To, Runs: m.Runs(),
		State: badge{"", m.Steps[m.At].Name},
	}
	if known(w, m.Pod) {
		v.PodURL = s.podURL(w.Namespace, m.Pod)
	}
	switch {
	case m.Failed():
		v.State = badge{"bad", "Failed"}
	case v.Runs:
		v.State = badge{"warn", "At: " + m.Steps[m.At].Name}
	case m.Steps[m.At].State == overview.StepDone:
		v.State = badge{"ok", "Available"}
	default:
		v.State = badge{"unknown", "Over"}
	}
	if !v.Runs {
		v.Ended = clockOf(m.Ended)
	}
	for i := range m.Steps {
		v.Steps = append(v.Steps, stepViewOf(w, &m.Steps[i], s))
	}
	return v
}

// known reports whether a workload has a pod now: one that was evicted has no page.
func known(w *overview.Workload, pod string) bool {
	for i := range w.Slots {
		if slices.Contains(w.Slots[i].PodNames(), pod) {
			return true
		}
	}
	return false
}

// stepMarks are the classes and marks of steps by their state. The badge has marks of its own for steps that are done and that failed.
var stepMarks = map[overview.StepState][2]string{
	overview.StepDone: {"ok", ""}, overview.StepNow: {"warn", "…"}, overview.StepAhead: {"", ""}, overview.StepFailed: {"bad", ""},
	overview.StepUnknown: {"unknown", "?"},
}

func stepViewOf(w *overview.Workload, m *overview.MoveStep, s *state) stepView {
	mark := stepMarks[m.State]
	v := stepView{Badge: badge{mark[0], m.Name}, Pod: m.Pod, Node: m.Node, NodeURL: nodeURL(s, m.Node), Text: m.Text}
	if mark[1] != "" {
		v.Badge.Word = mark[1] + " " + m.Name
	}
	if known(w, m.Pod) {
		v.PodURL = s.podURL(w.Namespace, m.Pod)
	}
	if m.Type != "" {
		v.Type = typeValue(m.Type)
	}
	if !m.Time.IsZero() {
		v.At, v.Clock, v.Title = m.Time.UTC().Format(time.RFC3339), clockOf(m.Time), m.Time.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return v
}

func clockOf(t time.Time) string { return t.UTC().Format("15:04:05") }
