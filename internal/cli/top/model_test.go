// SPDX-License-Identifier: Apache-2.0

package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/test/clitest"
)

// hostile is what may be in a text that the API server does not validate.
const hostile = "a\x1b[2J\x1b]0;owned\a\r\u202egnp\u0000\u009b1m\xff\u200bz"

// shopData is the overview of the shop with one of everything, and of the same in another namespace.
func shopData(t *testing.T) *data {
	t.Helper()
	s := clitest.OneOfEach()
	s.Pod("web", "other", "o1").Namespace = "back"
	s.Mix("web", 0, 0)
	s.Mixes[len(s.Mixes)-1].Namespace = "back"
	c := s.Cluster(t)
	return &data{overview: overview.Of(overview.Input{State: c.State, Pods: c.Pods, Nodes: c.Nodes, Mixes: c.Mixes}), at: clitest.Now}
}

// screen is a model of a size with data, without colors.
func screen(t *testing.T, width, height int) *model {
	t.Helper()
	m := newModel("", 2*time.Second, false, clitest.Now)
	m.update(tea.WindowSizeMsg{Width: width, Height: height})
	m.update(readMsg{data: shopData(t)})
	m.update(clockMsg(clitest.Now.Add(3 * time.Second)))
	return &m
}

// keys are the keys whose names differ from their text.
var keys = map[string]tea.KeyPressMsg{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
	"pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "home": {Code: tea.KeyHome}, "end": {Code: tea.KeyEnd},
	"backspace": {Code: tea.KeyBackspace}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
}

// press presses keys, one after the other, and returns the command of the last.
func press(m *model, names ...string) (cmd tea.Cmd) {
	for _, name := range names {
		key, ok := keys[name]
		if !ok {
			key = tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
		}
		cmd = m.update(key)
	}
	return cmd
}

func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, ok := cmd().(tea.QuitMsg)
	return ok
}

// names are the workloads of the table.
func names(m *model) (all []string) {
	for _, w := range m.rows {
		all = append(all, w.Namespace+"/"+w.Name)
	}
	return all
}

func TestFrames(t *testing.T) {
	for name, show := range map[string]func(m *model){
		"table":    func(*model) {},
		"workload": func(m *model) { press(m, "enter", "j") },
		"help":     func(m *model) { press(m, "?") },
		"filter":   func(m *model) { press(m, "/", "w", "e", "b") },
		"failure":  func(m *model) { m.update(readMsg{err: errors.New("list pods: connection refused")}) },
	} {
		for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 20}} {
			m := screen(t, size[0], size[1])
			show(m)
			clitest.Golden(t, fmt.Sprintf("%s-%dx%d.txt", name, size[0], size[1]), m.frame()+"\n")
		}
	}
}

func TestKeysThatQuit(t *testing.T) {
	for _, name := range []string{"q", "esc", "ctrl+c"} {
		assert.True(t, quits(press(screen(t, 80, 24), name)), name)
	}
	assert.True(t, quits(press(screen(t, 80, 24), "/", "ctrl+c")), "also from the filter")
	assert.True(t, quits(press(screen(t, 80, 24), "enter", "q")))
	for _, names := range [][]string{{"enter", "esc"}, {"?", "esc"}, {"/", "q"}, {"/", "esc"}, {"enter", "?", "esc"}, {"x"}} {
		assert.False(t, quits(press(screen(t, 80, 24), names...)), "%v", names)
	}
}

func TestArrowsMoveTheCursor(t *testing.T) {
	m := screen(t, 80, 24)
	n := len(m.rows)
	require.Greater(t, n, 4)
	for _, c := range []struct {
		key  string
		want int
	}{
		{"up", 0}, {"down", 1}, {"j", 2}, {"k", 1}, {"end", n - 1}, {"down", n - 1}, {"home", 0}, {"pgdown", n - 1}, {"pgup", 0}, {"G", n - 1}, {"g", 0},
	} {
		press(m, c.key)
		assert.Equal(t, c.want, m.table.cursor, c.key)
	}
}

func TestTheCursorStaysOnItsWorkload(t *testing.T) {
	m := screen(t, 80, 24)
	press(m, "j", "j")
	at := m.rows[m.table.cursor].Name
	d := shopData(t)
	d.overview.Workloads = d.overview.Workloads[1:]
	m.update(readMsg{data: d})
	assert.Equal(t, at, m.rows[m.table.cursor].Name)
	d.overview.Workloads = nil
	m.update(readMsg{data: d})
	assert.Zero(t, m.table.cursor)
	assert.Contains(t, m.frame(), "No governed workloads found.")
}

func TestTheFilterChoosesRows(t *testing.T) {
	m := screen(t, 80, 24)
	all := names(m)
	press(m, "/", "W", "e", "b")
	assert.ElementsMatch(t, []string{"back/capacitymix/web", "shop/capacitymix/web", "shop/web"}, names(m))
	press(m, "enter", "q") // q is no text any more
	assert.Contains(t, m.frame(), `filter "Web": 3 of 5`)
	press(m, "/", "backspace", "backspace", "backspace", "backspace", "z", "z")
	assert.Empty(t, m.rows)
	assert.Contains(t, m.frame(), `No workload matches "zz".`)
	press(m, "ctrl+u")
	assert.Equal(t, all, names(m))
	m.update(tea.PasteMsg{Content: hostile})
	assert.Equal(t, display.Inert(hostile, maxFilter), m.filter)
	m.update(tea.PasteMsg{Content: strings.Repeat("x", 1<<18)})
	assert.LessOrEqual(t, len(m.filter), maxFilter)
	press(m, "esc")
	assert.Equal(t, all, names(m))
	m.update(tea.PasteMsg{Content: "web"})
	assert.Equal(t, all, names(m), "there is no filter to paste into")
	press(m, "/", "I", "n", "s", "u", "f")
	assert.Equal(t, []string{"shop/api"}, names(m), "by the reason")
}

func TestSorting(t *testing.T) {
	m := screen(t, 80, 24)
	state := names(m)
	press(m, "s")
	assert.IsIncreasing(t, names(m))
	press(m, "s")
	for i := 1; i < len(m.rows); i++ {
		assert.GreaterOrEqual(t, m.rows[i-1].Replicas, m.rows[i].Replicas)
	}
	press(m, "s")
	assert.Equal(t, state, names(m))
}

func TestAWorkloadOpensAndMayVanish(t *testing.T) {
	m := screen(t, 80, 24)
	press(m, "enter", "end")
	require.NotNil(t, m.openRow)
	assert.Equal(t, "shop/api", m.openRow.Namespace+"/"+m.openRow.Name)
	assert.Contains(t, m.frame(), "slot 2: waits for spot: 0/5 nodes are available")
	press(m, "?", "?")
	assert.Equal(t, inWorkload, m.mode, "the help returns to it")
	d := shopData(t)
	d.overview.Workloads = d.overview.Workloads[2:]
	m.update(readMsg{data: d})
	assert.Contains(t, m.frame(), "This workload is gone.")
	press(m, "j", "esc")
	assert.Equal(t, inTable, m.mode)
}

func TestNamespaces(t *testing.T) {
	m := screen(t, 80, 24)
	var seen []string
	for range 3 {
		press(m, "n")
		seen = append(seen, m.only)
	}
	assert.Equal(t, []string{"back", "shop", ""}, seen)
	press(m, "n")
	assert.Equal(t, []string{"back/capacitymix/web"}, names(m))

	// A command about one namespace reads all at the first n, and returns to the one if it may not.
	one := newModel("shop", time.Second, false, clitest.Now)
	var scopes []string
	one.read = func(scope string, seq int) tea.Msg {
		scopes = append(scopes, scope)
		return readMsg{data: shopData(t), scope: scope, seq: seq}
	}
	one.update(one.begin()())
	cmd := press(&one, "n")
	require.NotNil(t, cmd)
	one.update(readMsg{err: errors.New("forbidden"), scope: "", seq: one.seq})
	assert.Equal(t, "shop", one.shown)
	assert.Contains(t, one.frame(), "reading any namespace")
	one.update(press(&one, "n")())
	assert.Equal(t, "shop", one.scope)
	assert.Empty(t, one.failure)
	one.update(press(&one, "n")())
	assert.Empty(t, one.shown)
	assert.Equal(t, []string{"shop", "shop", ""}, scopes)
}

func TestAReadOfAFormerScopeIsDropped(t *testing.T) {
	m := newModel("shop", time.Second, false, clitest.Now)
	m.read = func(scope string, seq int) tea.Msg { return readMsg{data: shopData(t), scope: scope, seq: seq} }
	slow := m.begin()
	m.data, m.scope = shopData(t), ""
	assert.Nil(t, press(&m, "j"))
	next := m.update(slow())
	assert.Equal(t, "shop", m.shown)
	require.NotNil(t, next, "the scope that is chosen now is read at once")
	m.update(next())
	assert.Empty(t, m.shown)
}

func TestAFailedReadKeepsTheDataWithItsAge(t *testing.T) {
	m := screen(t, 100, 30)
	was := names(m)
	m.update(readMsg{err: errors.New("list pods: " + hostile)})
	m.update(clockMsg(clitest.Now.Add(65 * time.Second)))
	m.update(readMsg{err: errors.New("list pods: dial tcp: connection refused")})
	frame := m.frame()
	assert.Contains(t, frame, "read 65s ago")
	assert.Contains(t, frame, "ERROR for 62s: list pods: dial tcp: connection refused")
	assert.Equal(t, was, names(m))

	// A right that is taken away is no smaller cluster.
	lost := &data{overview: &overview.Overview{}, problems: []string{"not allowed: list pods"}, missing: []string{"pods"}, at: m.now}
	m.update(readMsg{data: lost})
	assert.Equal(t, was, names(m))
	assert.Contains(t, m.frame(), "not allowed: list pods")

	m.update(readMsg{data: shopData(t)})
	assert.NotContains(t, m.frame(), "ERROR")
}

func TestWhatCouldNeverBeReadIsAWarning(t *testing.T) {
	m := newModel("shop", time.Second, false, clitest.Now)
	d := shopData(t)
	d.problems, d.missing = []string{"not allowed: list jobs.batch in namespace shop"}, []string{"jobs.batch"}
	for range 2 {
		m.update(readMsg{data: d, scope: "shop"})
		assert.Contains(t, m.frame(), "Warning: not allowed: list jobs.batch in namespace shop")
		assert.Empty(t, m.failure)
	}
}

func TestAPauseEndsTheReads(t *testing.T) {
	m := screen(t, 80, 24)
	reads := 0
	m.read = func(scope string, seq int) tea.Msg {
		reads++
		return readMsg{data: shopData(t), scope: scope, seq: seq}
	}
	press(m, "p")
	assert.Contains(t, m.frame(), "PAUSED")
	assert.Nil(t, m.update(dueMsg{m.seq}))
	cmd := press(m, "p")
	require.NotNil(t, cmd, "it reads at once")
	assert.Nil(t, m.update(dueMsg{m.seq}), "one read at a time")
	m.update(cmd())
	assert.Equal(t, 1, reads)
	assert.Nil(t, m.update(dueMsg{m.seq - 1}), "a former timer")
	assert.NotNil(t, m.update(dueMsg{m.seq}))
}

func TestReadsTakeATenthOfTheTime(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, 100 * time.Millisecond: 1900 * time.Millisecond, time.Second: 9 * time.Second, 20 * time.Second: time.Minute,
	} {
		assert.Equal(t, want, pause(2*time.Second, took), took)
	}
}

// No line is wider, and no frame higher, than the terminal, whatever is pressed. Colors add nothing to the text.
func TestAnyFrameFitsItsTerminal(t *testing.T) {
	d := shopData(t)
	d.overview.Workloads[0].Name, d.overview.Workloads[0].Message = strings.Repeat("x", 280), strings.Repeat("y", 512)
	d.overview.Workloads[1].HiddenSlots = 1 << 31
	all := []string{"/", "w", "?", "enter", "esc2", "j", "k", "pgdown", "pgup", "s", "n", "p", "backspace", "home", "end"}
	rapid.Check(t, func(t *rapid.T) {
		plainScreen, colored := newModel("", time.Second, false, clitest.Now), newModel("", time.Second, true, clitest.Now)
		both := func(msg tea.Msg) {
			plainScreen.update(msg)
			colored.update(msg)
		}
		both(readMsg{data: d})
		if rapid.Bool().Draw(t, "failed") {
			both(readMsg{err: errors.New(strings.Repeat("no route to host ", 99))})
		}
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			width, height := rapid.IntRange(1, 300).Draw(t, "width"), rapid.IntRange(1, 100).Draw(t, "height")
			both(tea.WindowSizeMsg{Width: width, Height: height})
			if name := rapid.SampledFrom(all).Draw(t, "key"); name == "esc2" {
				if plainScreen.mode != inTable {
					both(keys["esc"])
				}
			} else if key, ok := keys[name]; ok {
				both(key)
			} else {
				both(tea.KeyPressMsg{Code: rune(name[0]), Text: name})
			}
			frame := plainScreen.frame()
			lines := strings.Split(frame, "\n")
			require.LessOrEqual(t, len(lines), height)
			for _, line := range lines {
				require.LessOrEqual(t, ansi.StringWidth(line), width, "%q", line)
				require.NotContains(t, line, "\x1b")
			}
			require.Equal(t, frame, trimmed(ansi.Strip(colored.frame())))
		}
	})
}

// trimmed has no spaces at the ends of lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestEverySlotStateHasALetterOfItsOwn(t *testing.T) {
	letters := map[string]string{}
	for name, s := range map[string]overview.Slot{
		"spot": {State: overview.InPlace, Type: "spot"}, "on-demand": {State: overview.InPlace, Type: "on-demand"},
		"floor":   {State: overview.InPlace, Type: "on-demand", Floor: true},
		"pending": {State: overview.Pending, Type: "on-demand", Floor: true}, "wrong": {State: overview.Borrowed, Type: "spot"},
		"departing": {State: overview.Departing, Type: "spot"},
	} {
		letters[name], _ = cell(&s)
		require.Contains(t, strings.Join(helpLines, "\n"), letters[name])
	}
	assert.Equal(t, map[string]string{"spot": "s", "on-demand": "o", "floor": "O", "pending": "·", "wrong": "!", "departing": "×"}, letters)
}

func TestARibbonThatDoesNotFitCountsTheRest(t *testing.T) {
	w := &overview.Workload{}
	for range 20 {
		w.Slots = append(w.Slots, overview.Slot{State: overview.InPlace, Type: "spot"})
	}
	for width, want := range map[int]string{20: strings.Repeat("s", 20), 10: "sssssss+13", 25: strings.Repeat("s", 20) + "     ", 3: "+20", 2: "+…", 0: ""} {
		assert.Equal(t, want, theme{}.ribbon(w, width), width)
	}
	w.HiddenSlots = 980
	assert.Equal(t, strings.Repeat("s", 6)+"+994", theme{}.ribbon(w, 10))
	assert.Equal(t, strings.Repeat("s", 20)+"+980", theme{}.ribbon(w, 24))
}

func BenchmarkFrame(b *testing.B) {
	m := newModel("", time.Second, true, clitest.Now)
	d := &data{overview: &overview.Overview{}}
	for i := range 1000 {
		w := overview.Workload{Namespace: "shop", Name: fmt.Sprint("web-", i), ID: fmt.Sprint(i)}
		for range 10 {
			w.Slots = append(w.Slots, overview.Slot{State: overview.InPlace, Type: "spot"})
		}
		d.overview.Workloads = append(d.overview.Workloads, w)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.update(readMsg{data: d})
		m.frame()
	}
}
