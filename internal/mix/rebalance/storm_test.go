// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var (
	stormStart    = time.Date(2026, time.August, 1, 12, 0, 0, 0, time.UTC)
	stormDefaults = StormSettings{SharePercent: 30, MinNodes: 3, Window: 5 * time.Minute, Quiet: 10 * time.Minute}
)

func after(d time.Duration) time.Time {
	return stormStart.Add(d)
}

func TestStormBegins(t *testing.T) {
	// each reports nodes 0, 1, … one every interval; node names repeat after distinct.
	tests := map[string]struct {
		reports, distinct int
		every             time.Duration
		settings          StormSettings
		remaining         int
		wantActive        bool
	}{
		"nothing left":                               {0, 1, time.Second, stormDefaults, 10, false},
		"nothing left of nothing":                    {0, 1, time.Second, StormSettings{Window: time.Minute, Quiet: time.Minute}, 0, false},
		"30 % of 10 is not more than 30 %":           {3, 3, time.Second, stormDefaults, 7, false},
		"40 % of 10 is":                              {4, 4, time.Second, stormDefaults, 6, true},
		"31 of 100 is more than 30 %":                {31, 31, time.Second, stormDefaults, 69, true},
		"30 of 100 is not":                           {30, 30, time.Second, stormDefaults, 70, false},
		"all of 10 within 10 s":                      {10, 10, time.Second, stormDefaults, 0, true},
		"all of 2 are fewer than MinNodes":           {2, 2, time.Second, stormDefaults, 0, false},
		"MinNodes is enough":                         {3, 3, time.Second, stormDefaults, 0, true},
		"no MinNodes at all":                         {1, 1, time.Second, StormSettings{SharePercent: 30, Window: time.Minute, Quiet: time.Minute}, 1, true},
		"one every 2 min: 3 of 10 count":             {4, 4, 2 * time.Minute, stormDefaults, 7, false},
		"one of 10 flaps every 20 s: 1 of 11 counts": {30, 1, 20 * time.Second, stormDefaults, 10, false},
		"one of 1 flaps: fewer than MinNodes":        {30, 1, 20 * time.Second, stormDefaults, 1, false},
		"4 of 10 flap in turn: 4 of 14 is 28 %":      {30, 4, 20 * time.Second, stormDefaults, 10, false},
		"5 of 10 flap in turn: 5 of 15 is 33 %":      {30, 5, 20 * time.Second, stormDefaults, 10, true},
		"a share of 100 % can not be exceeded":       {10, 10, time.Second, StormSettings{SharePercent: 100, Window: time.Minute, Quiet: time.Minute}, 0, false},
		"a share of 0 % is any node":                 {1, 1, time.Second, StormSettings{Window: time.Minute, Quiet: time.Minute}, 1000, true},
		"no window, no storm":                        {10, 10, time.Second, StormSettings{SharePercent: 30, Quiet: time.Minute}, 0, false},
		"no quiet, no storm":                         {10, 10, time.Second, StormSettings{SharePercent: 30, Window: time.Minute}, 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, now, began := NewStorm(tc.settings), stormStart, false
			for i := range tc.reports {
				now = after(time.Duration(i) * tc.every)
				began = s.NodeLeft(fmt.Sprint(i%tc.distinct), now, tc.remaining) || began
			}
			active, until := s.Active(now)
			assert.Equal(t, tc.wantActive, active)
			assert.Equal(t, tc.wantActive, began)
			assert.Equal(t, tc.wantActive, until.After(now))
		})
	}
}

// leave reports n new nodes of ten that leave at once, and returns how many storms began.
func leave(s *Storm, n int, now time.Time) (storms int) {
	for i := range n {
		if s.NodeLeft(fmt.Sprint(now.Unix(), "-", i), now, 9-i) {
			storms++
		}
	}
	return storms
}

func TestStormEndsWhenItIsQuiet(t *testing.T) {
	s := NewStorm(stormDefaults)
	assert.Equal(t, 1, leave(s, 5, stormStart))
	active, until := s.Active(after(time.Minute))
	assert.True(t, active)
	assert.Equal(t, after(10*time.Minute), until)

	assert.False(t, s.NodeLeft("one of as many", after(time.Minute), 4))
	assert.False(t, s.NodeLeft("alone", after(6*time.Minute), 4))
	active, until = s.Active(after(11*time.Minute - 1))
	assert.True(t, active, "one of six in the window postpones the end, one that leaves alone does not")
	assert.Equal(t, after(11*time.Minute), until)

	active, until = s.Active(after(11 * time.Minute))
	assert.False(t, active)
	assert.Zero(t, until)
}

// A large cluster loses a node now and then: one of 101 every 100 s held all moves for as long as that went on.
func TestStormIsNotHeldOpenByNodesThatLeaveOneByOne(t *testing.T) {
	s := NewStorm(StormSettings{SharePercent: 20, MinNodes: 2, Window: time.Minute, Quiet: 2 * time.Minute})
	for i := range 30 {
		s.NodeLeft(fmt.Sprint("burst", i), stormStart, 100)
	}
	for i := range 36 {
		now := after(time.Duration(i+1) * 100 * time.Second)
		assert.False(t, s.NodeLeft(fmt.Sprint(i), now, 100))
		active, _ := s.Active(now)
		assert.Equal(t, now.Before(after(2*time.Minute)), active, "%s after the burst", now.Sub(stormStart))
	}
}

func TestStormIsNotHeldOpenByANodeThatFlaps(t *testing.T) {
	s := NewStorm(stormDefaults)
	leave(s, 5, stormStart)
	for d := time.Duration(0); d < 9*time.Minute; d += 20 * time.Second {
		assert.False(t, s.NodeLeft("flapping", after(d), 5))
	}
	active, until := s.Active(after(9 * time.Minute))
	assert.True(t, active)
	assert.Equal(t, after(10*time.Minute), until)
	s.NodeLeft("flapping", after(9*time.Minute+40*time.Second), 5)
	active, _ = s.Active(after(10 * time.Minute))
	assert.False(t, active)
}

func TestStormIsHeldOpenByNodesThatFlapTogether(t *testing.T) {
	s := NewStorm(stormDefaults)
	last, storms := stormStart, 0
	for d := time.Duration(0); d < time.Hour; d += 20 * time.Second {
		last = after(d)
		for i := range 5 {
			if s.NodeLeft(fmt.Sprint(i), last, 5) {
				storms++
			}
		}
		active, until := s.Active(last)
		assert.True(t, active, "after %s", d)
		assert.Equal(t, last.Add(stormDefaults.Quiet), until)
	}
	active, _ := s.Active(last.Add(stormDefaults.Quiet))
	assert.False(t, active)
	assert.Equal(t, 1, storms)
}

func TestStormDoesNotBeginAgainWithTheSameDepartures(t *testing.T) {
	s := NewStorm(StormSettings{SharePercent: 30, MinNodes: 3, Window: 10 * time.Minute, Quiet: time.Minute})
	assert.Equal(t, 1, leave(s, 5, stormStart))
	active, _ := s.Active(after(time.Minute))
	assert.False(t, active, "quiet, though all five still count")
	active, _ = s.Active(after(2 * time.Minute))
	assert.False(t, active)

	assert.True(t, s.NodeLeft("late", after(3*time.Minute), 4), "six within ten minutes")
	active, _ = s.Active(after(3 * time.Minute))
	assert.True(t, active)
}

func TestStormThatEndedUnnoticedIsNotTheNext(t *testing.T) {
	s := NewStorm(stormDefaults)
	assert.Equal(t, 1, leave(s, 5, stormStart))
	assert.False(t, s.NodeLeft("alone", after(10*time.Minute), 4), "one node, and the first storm was over when it left")
	active, _ := s.Active(after(10 * time.Minute))
	assert.False(t, active)
	assert.Equal(t, 1, leave(s, 5, after(30*time.Minute)))
}

// A storm begins with the departure, whether or not anything is decided meanwhile.
func TestStormBeginsUnnoticed(t *testing.T) {
	s := NewStorm(stormDefaults)
	leave(s, 5, stormStart)
	active, until := s.Active(after(stormDefaults.Window + time.Minute))
	assert.True(t, active, "the departures are older than the window, and it is not quiet yet")
	assert.Equal(t, after(10*time.Minute), until)
}

func TestStormTakesReportsInAnyOrder(t *testing.T) {
	s := NewStorm(stormDefaults)
	s.NodeLeft("a", after(2*time.Minute), 0)
	s.NodeLeft("b", after(time.Minute), 0)
	s.NodeLeft("a", stormStart, 0)
	assert.True(t, s.NodeLeft("c", stormStart, 0))
	active, until := s.Active(after(2 * time.Minute))
	assert.True(t, active)
	assert.Equal(t, after(12*time.Minute), until, "counted from the latest, which was reported first")

	active, _ = s.Active(after(5 * time.Minute))
	assert.True(t, active)
	assert.Len(t, s.left, 2, "the older report of a did not replace the newer one, c is forgotten")
}

func TestStormForgets(t *testing.T) {
	s := NewStorm(stormDefaults)
	for i := range 3 * maxDepartures {
		s.NodeLeft(fmt.Sprint("a", i), stormStart, 0)
	}
	assert.Len(t, s.left, maxDepartures)
	active, _ := s.Active(stormStart)
	assert.True(t, active)

	s.NodeLeft("not counted", after(time.Minute), 0)
	_, until := s.Active(after(time.Minute))
	assert.Equal(t, after(11*time.Minute), until, "but it postpones the end")

	s.NodeLeft("b", after(5*time.Minute), 0)
	assert.Len(t, s.left, 1, "full of what no longer counts")
	s.Active(after(10 * time.Minute))
	assert.Empty(t, s.left)
}

// stormModel recomputes everything from the whole history.
type stormModel struct {
	StormSettings
	history []departure
	active  bool
	end     time.Time // of the last departure that was one of enough
}

type departure struct {
	name  string
	now   time.Time
	first bool // not its node's second in a row within Window
}

func (m *stormModel) latest() time.Time {
	for _, h := range slices.Backward(m.history) {
		if h.first {
			return h.now
		}
	}
	return time.Time{}
}

func (m *stormModel) nodeLeft(name string, now time.Time, spotNodes int) (began bool) {
	m.active = m.active && now.Before(m.end)
	d := departure{name, now, true}
	if n := len(m.history); n > 0 && m.history[n-1].name == name {
		d.first = now.Sub(m.history[n-1].now) >= m.Window
	}
	m.history = append(m.history, d)
	left := m.leftWithin(now)
	enough := left >= m.MinNodes && left*100 > int(m.SharePercent)*(left+spotNodes)
	if enough {
		m.end = m.latest().Add(m.Quiet)
	}
	began = !m.active && enough && now.Before(m.end)
	m.active = m.active || began
	return began
}

func (m *stormModel) leftWithin(now time.Time) int {
	names := map[string]bool{}
	for _, h := range m.history {
		if now.Sub(h.now) < m.Window {
			names[h.name] = true
		}
	}
	return len(names)
}

func (m *stormModel) ask(now time.Time) (bool, time.Time) {
	if m.active = m.active && now.Before(m.end); !m.active {
		return false, time.Time{}
	}
	return true, m.end
}

func TestStormAgreesWithAModelOfItsHistory(t *testing.T) {
	storms := 0
	rapid.Check(t, func(t *rapid.T) {
		settings := StormSettings{
			SharePercent: rapid.Int32Range(0, 100).Draw(t, "share"),
			MinNodes:     rapid.IntRange(0, 5).Draw(t, "minNodes"),
			Window:       time.Duration(rapid.IntRange(0, 30).Draw(t, "window")) * time.Second,
			Quiet:        time.Duration(rapid.IntRange(0, 30).Draw(t, "quiet")) * time.Second,
		}
		s, m, now := NewStorm(settings), &stormModel{StormSettings: settings}, stormStart
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 2, 5, 15, 30, 61}).Draw(t, "seconds")) * time.Second)
			if rapid.Bool().Draw(t, "leaves") {
				name := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "node"))
				spotNodes := rapid.IntRange(0, 12).Draw(t, "spotNodes")
				began := s.NodeLeft(name, now, spotNodes)
				assert.Equal(t, m.nodeLeft(name, now, spotNodes), began)
				if began {
					storms++
				}
				continue
			}
			active, until := s.Active(now)
			wantActive, wantUntil := m.ask(now)
			assert.Equal(t, wantActive, active)
			assert.Equal(t, wantUntil, until)
			assert.Len(t, s.left, m.leftWithin(now), "no more is remembered than counts")
		}
	})
	assert.Positive(t, storms, "the generator must produce storms")
}
