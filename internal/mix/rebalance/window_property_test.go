// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/rebalance"
)

// cronField is one field of a schedule with its meaning, drawn together so that the model does not parse.
type cronField struct {
	text string
	set  map[int]bool
	star bool // does not restrict the other day field
}

func drawField(t *rapid.T, label string, low, high int) cronField {
	f := cronField{set: map[int]bool{}}
	first, step, last := low, 1, high
	switch kind := rapid.IntRange(0, 5).Draw(t, label); kind {
	case 0, 1:
		f.text, f.star = "*", true
	case 2:
		step = rapid.IntRange(2, 7).Draw(t, label+"Step")
		f.text = fmt.Sprintf("*/%d", step)
	case 3:
		first = rapid.IntRange(low, high).Draw(t, label+"Value")
		last = first
		f.text = fmt.Sprint(first)
	default:
		first = rapid.IntRange(low, high).Draw(t, label+"From")
		last = rapid.IntRange(first, high).Draw(t, label+"To")
		f.text = fmt.Sprintf("%d-%d", first, last)
		if kind == 5 {
			step = rapid.IntRange(2, 5).Draw(t, label+"Step")
			f.text += fmt.Sprintf("/%d", step)
		}
	}
	for v := first; v <= last; v += step {
		f.set[v] = true
	}
	return f
}

// drawnWindow is a window whose openings the model recognises minute by minute.
type drawnWindow struct {
	rebalance.Window
	zone                           *time.Location
	minute, hour, dom, months, dow cronField
}

func (w drawnWindow) opensAt(instant time.Time) bool {
	wall := instant.In(w.zone)
	if wall.Second() != 0 || !w.minute.set[wall.Minute()] || !w.hour.set[wall.Hour()] || !w.months.set[int(wall.Month())] {
		return false
	}
	byDate, byWeekday := w.dom.set[wall.Day()], w.dow.set[int(wall.Weekday())]
	if w.dom.star || w.dow.star {
		return byDate && byWeekday
	}
	return byDate || byWeekday
}

var zonesUnderTest = []string{
	"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana", "America/Santiago",
	"America/St_Johns", "Asia/Kathmandu", "Africa/Casablanca",
}

func drawWindow(t *rapid.T) drawnWindow {
	w := drawnWindow{
		minute: drawField(t, "minute", 0, 59),
		hour:   drawField(t, "hour", 0, 23),
		dom:    drawField(t, "dom", 1, 31),
		months: cronField{text: "*"},
		dow:    drawField(t, "dow", 0, 6),
	}
	w.months.set = map[int]bool{}
	for m := 1; m <= 12; m++ {
		w.months.set[m] = true
	}
	if rapid.Bool().Draw(t, "inTheSameMonths") {
		w.months = cronField{text: "3,4,10", set: map[int]bool{3: true, 4: true, 10: true}}
	}
	w.Schedule = strings.Join([]string{w.minute.text, w.hour.text, w.dom.text, w.months.text, w.dow.text}, " ")
	w.Duration = time.Duration(rapid.SampledFrom([]int{60, 61, 90, 600, 3599, 3600, 5400, 7200, 24 * 3600, 30 * 3600, 7 * 24 * 3600}).
		Draw(t, "duration")) * time.Second
	w.TimeZone = rapid.SampledFrom(zonesUnderTest).Draw(t, "zone")
	w.zone, _ = time.LoadLocation(w.TimeZone)
	return w
}

// nearChanges draws an instant, mostly within days of a change of clocks in one of the zones.
func nearChanges() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		day := rapid.SampledFrom([]string{
			"2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04", "2026-04-24", "2026-10-30",
			"2026-09-06", "2026-02-15", "2026-03-22", "2026-06-15", "2028-02-29",
		}).Draw(t, "day")
		start, _ := time.Parse(time.DateOnly, day)
		return start.Add(time.Duration(rapid.IntRange(-36*3600, 60*3600).Draw(t, "second")) * time.Second)
	})
}

type span struct{ from, to time.Time }

// modelSpans are the joined open times of the windows, from the openings in [from, to), found minute by minute.
func modelSpans(list []drawnWindow, from, to time.Time) []span {
	var spans []span
	for instant := from.Truncate(time.Minute); instant.Before(to); instant = instant.Add(time.Minute) {
		for _, w := range list {
			if !w.opensAt(instant) {
				continue
			}
			end := instant.Add(w.Duration)
			if n := len(spans); n > 0 && !spans[n-1].to.Before(instant) {
				if end.After(spans[n-1].to) {
					spans[n-1].to = end
				}
				continue
			}
			spans = append(spans, span{instant, end})
		}
	}
	return spans
}

func TestOpenAgreesWithAModelByTheMinute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := make([]drawnWindow, rapid.IntRange(1, 3).Draw(t, "windows"))
		windows := make([]rebalance.Window, len(list))
		for i := range list {
			list[i] = drawWindow(t)
			windows[i] = list[i].Window
		}
		ws, err := rebalance.ParseWindows(windows)
		if err != nil { // a date that no month has
			require.ErrorContains(t, err, "no such day")
			return
		}
		now := nearChanges().Draw(t, "now")
		longest := slices.MaxFunc(list, func(a, b drawnWindow) int { return cmp.Compare(a.Duration, b.Duration) }).Duration
		seen := now.Add(3 * 24 * time.Hour) // the model sees the openings up to here
		spans := modelSpans(list, now.Add(-longest), seen)

		var want span
		i := slices.IndexFunc(spans, func(s span) bool { return s.to.After(now) })
		if i >= 0 {
			want = spans[i]
		}
		wantOpen := i >= 0 && !want.from.After(now)
		open, until := ws.Open(now)
		assert.Equal(t, wantOpen, open, "%v at %v", windows, now)
		switch {
		case wantOpen && want.to.Before(seen):
			assert.True(t, want.to.Equal(until), "open: want %v, got %v", want.to, until)
		case !wantOpen && i >= 0:
			assert.True(t, want.from.Equal(until), "closed: want %v, got %v", want.from, until)
		case !until.IsZero():
			assert.False(t, until.Before(seen), "beyond the model: got %v", until)
		}
	})
}

// robfig/cron is right in UTC: there, the first opening is its Next.
func TestOpeningsAreThoseOfCron(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWindow(t)
		w.TimeZone, w.Duration = "", time.Minute
		ws, err := rebalance.ParseWindows([]rebalance.Window{w.Window})
		if err != nil {
			return
		}
		spec, err := cron.ParseStandard(w.Schedule)
		require.NoError(t, err)
		now := nearChanges().Draw(t, "now")
		if open, until := ws.Open(now); !open {
			assert.Equal(t, spec.Next(now), until)
		}
	})
}

// checkUntil: until is in the future, and it is where the answer changes, not a moment before.
func checkUntil(t require.TestingT, ws rebalance.Windows, now time.Time) {
	open, until := ws.Open(now)
	if until.IsZero() {
		return
	}
	require.True(t, until.After(now))
	after, _ := ws.Open(until)
	require.NotEqual(t, open, after, "the answer changes at %v", until)
	before, untilBefore := ws.Open(until.Add(-1))
	require.Equal(t, open, before, "and not before")
	require.Equal(t, until, untilBefore)
}

func TestUntilIsWhereTheAnswerChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var windows []rebalance.Window
		for range rapid.IntRange(0, 3).Draw(t, "windows") {
			windows = append(windows, drawWindow(t).Window)
		}
		ws, err := rebalance.ParseWindows(windows)
		if err != nil {
			return
		}
		now := nearChanges().Draw(t, "now").Add(time.Duration(rapid.IntRange(0, 999_999_999).Draw(t, "nanos")))
		checkUntil(t, ws, now)
	})
}

// FuzzParseWindows: whatever is written, nothing panics or hangs, a refusal names the window, and what is accepted
// gives answers that agree with each other.
func FuzzParseWindows(f *testing.F) {
	f.Add("0 22 * * *", int64(time.Hour), "Europe/Berlin", int64(1774746000))
	f.Add("*/5 9-17 1,15 jan-mar mon-fri", int64(90*time.Second), "", int64(0))
	f.Add("@daily", int64(24*time.Hour), "America/Havana", int64(1793505600))
	f.Add("@every 1h", int64(time.Minute), "UTC", int64(1))
	f.Add("TZ=UTC", int64(time.Minute), "Local", int64(-1))
	f.Add("*-5 ,, 1/2/3 5-1 99999999999999999999", int64(-1), "../x", int64(1<<40))
	f.Add("0 0 29 2 *", int64(7*24*time.Hour), "Pacific/Apia", int64(1325203200))
	f.Fuzz(func(t *testing.T, schedule string, duration int64, zone string, unix int64) {
		ws, err := rebalance.ParseWindows([]rebalance.Window{{Schedule: schedule, Duration: time.Duration(duration), TimeZone: zone}})
		if err != nil {
			assert.Regexp(t, `^windows\[0\]\.(schedule|duration|timeZone): `, err)
			return
		}
		checkUntil(t, ws, time.Unix(unix%(1<<33), 0)) // until the year 2242
	})
}
