// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tables name zones, and a test must not depend on those of the machine

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/rebalance"
)

// at reads a wall clock time of a zone, or a time with an offset of its own.
func at(t testing.TB, zone, text string) time.Time {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if parsed, err := time.ParseInLocation(layout, text, loc); err == nil {
			return parsed
		}
	}
	t.Fatalf("%q is no time", text)
	return time.Time{}
}

func windowsOf(t testing.TB, list ...rebalance.Window) rebalance.Windows {
	t.Helper()
	ws, err := rebalance.ParseWindows(list)
	require.NoError(t, err)
	return ws
}

func TestWindowsOpenAndClose(t *testing.T) {
	night := rebalance.Window{Schedule: "0 22 * * *", Duration: 4 * time.Hour}
	tests := map[string]struct {
		windows   []rebalance.Window
		now       string // UTC
		wantOpen  bool
		wantUntil string // UTC, empty for the zero time
	}{
		"no windows are always open":                   {nil, "2026-08-01 12:00", true, ""},
		"a window opens at its opening":                {[]rebalance.Window{night}, "2026-08-01 22:00", true, "2026-08-02 02:00"},
		"a window is closed just before its opening":   {[]rebalance.Window{night}, "2026-08-01 21:59:59", false, "2026-08-01 22:00"},
		"a window is open over midnight":               {[]rebalance.Window{night}, "2026-08-02 00:30", true, "2026-08-02 02:00"},
		"a window is open until just before its end":   {[]rebalance.Window{night}, "2026-08-02 01:59:59", true, "2026-08-02 02:00"},
		"a window is closed at its end":                {[]rebalance.Window{night}, "2026-08-02 02:00", false, "2026-08-02 22:00"},
		"overlapping windows join":                     {[]rebalance.Window{night, {Schedule: "0 1 * * *", Duration: 3 * time.Hour}}, "2026-08-01 23:00", true, "2026-08-02 04:00"},
		"windows that touch join":                      {[]rebalance.Window{night, {Schedule: "0 2 * * *", Duration: time.Hour}}, "2026-08-01 23:00", true, "2026-08-02 03:00"},
		"windows a second apart do not join":           {[]rebalance.Window{{Schedule: "0 22 * * *", Duration: 4*time.Hour - time.Second}, {Schedule: "0 2 * * *", Duration: time.Hour}}, "2026-08-01 23:00", true, "2026-08-02 01:59:59"},
		"a window inside another does not shorten it":  {[]rebalance.Window{night, {Schedule: "0 23 * * *", Duration: time.Hour}}, "2026-08-01 23:30", true, "2026-08-02 02:00"},
		"the next opening is that of any window":       {[]rebalance.Window{night, {Schedule: "30 20 * * *", Duration: time.Hour}}, "2026-08-01 12:00", false, "2026-08-01 20:30"},
		"whole weekdays join to a week without a gap":  {[]rebalance.Window{{Schedule: "0 0 * * 1-5", Duration: 24 * time.Hour}}, "2026-08-05 12:00", true, "2026-08-08 00:00"},
		"and open again on Monday":                     {[]rebalance.Window{{Schedule: "0 0 * * mon-fri", Duration: 24 * time.Hour}}, "2026-08-08 12:00", false, "2026-08-10 00:00"},
		"a window longer than its period never closes": {[]rebalance.Window{{Schedule: "@daily", Duration: 25 * time.Hour}}, "2026-08-01 12:00", true, ""},
		"nor does one as long as its period":           {[]rebalance.Window{{Schedule: "@hourly", Duration: time.Hour}}, "2026-08-01 12:00:30", true, ""},
		"nor one a minute long of every minute":        {[]rebalance.Window{{Schedule: "* * * * *", Duration: time.Minute}}, "2026-08-01 12:00:30", true, ""},
		"nor two that alternate by the minute":         {[]rebalance.Window{{Schedule: "*/2 * * * *", Duration: time.Minute}, {Schedule: "1-59/2 * * * *", Duration: time.Minute}}, "2026-08-01 12:00:30", true, ""},
		"longer than the period, but with an end":      {[]rebalance.Window{{Schedule: "*/10 8-9 * * *", Duration: 90 * time.Minute}}, "2026-08-01 08:20", true, "2026-08-01 11:20"},
		"a window of seven days":                       {[]rebalance.Window{{Schedule: "0 0 1 * *", Duration: 7 * 24 * time.Hour}}, "2026-08-07 23:59", true, "2026-08-08 00:00"},
		"a month of days joins":                        {[]rebalance.Window{{Schedule: "0 0 * 12 *", Duration: 24 * time.Hour}}, "2026-12-05 12:00", true, "2027-01-01 00:00"},
		"two restricted day fields mean either":        {[]rebalance.Window{{Schedule: "0 0 15 * 1", Duration: time.Hour}}, "2026-08-11 12:00", false, "2026-08-15 00:00"},
		"a leap day that is too far away is not named": {[]rebalance.Window{{Schedule: "0 0 29 2 *", Duration: time.Hour}}, "2026-08-01 12:00", false, ""},
		"a leap day within the year is":                {[]rebalance.Window{{Schedule: "0 0 29 2 *", Duration: time.Hour}}, "2027-08-01 12:00", false, "2028-02-29 00:00"},
		"a yearly window just missed is named":         {[]rebalance.Window{{Schedule: "@yearly", Duration: time.Hour}}, "2026-01-01 01:00", false, "2027-01-01 00:00"},
		"the zone decides, not the one of now":         {[]rebalance.Window{{Schedule: "0 9 * * *", Duration: time.Hour, TimeZone: "Asia/Tokyo"}}, "2026-08-01 00:30", true, "2026-08-01 01:00"},
		"a zone of 45 minutes":                         {[]rebalance.Window{{Schedule: "0 9 * * *", Duration: time.Hour, TimeZone: "Asia/Kathmandu"}}, "2026-08-01 00:30", false, "2026-08-01 03:15"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			open, until := windowsOf(t, tc.windows...).Open(at(t, "UTC", tc.now))
			assert.Equal(t, tc.wantOpen, open)
			want := time.Time{}
			if tc.wantUntil != "" {
				want = at(t, "UTC", tc.wantUntil)
			}
			assert.Equal(t, want, until)
		})
	}
}

func TestWindowsFollowTheClockChange(t *testing.T) {
	window := func(zone, schedule string, d time.Duration) rebalance.Window {
		return rebalance.Window{Schedule: schedule, Duration: d, TimeZone: zone}
	}
	const berlin = "Europe/Berlin"
	tests := map[string]struct {
		window    rebalance.Window
		now       string // wall clock of the zone, or with an offset
		wantOpen  bool
		wantUntil string
	}{
		// Forward on 2026-03-29: 02:00 CET is 03:00 CEST.
		"spring: a window over the change keeps its length":  {window(berlin, "0 1 * * *", 4*time.Hour), "2026-03-29 04:00", true, "2026-03-29T06:00:00+02:00"},
		"spring: a window of the day before keeps 24 h":      {window(berlin, "0 12 * * 6", 24*time.Hour), "2026-03-29 12:30", true, "2026-03-29T13:00:00+02:00"},
		"spring: a time that is skipped opens nothing":       {window(berlin, "30 2 * * *", time.Hour), "2026-03-29 03:15", false, "2026-03-30T02:30:00+02:00"},
		"spring: and is not announced":                       {window(berlin, "30 2 * * *", time.Hour), "2026-03-29 01:59", false, "2026-03-30T02:30:00+02:00"},
		"spring: the hour after the gap opens at once":       {window(berlin, "0 3 * * *", time.Hour), "2026-03-29 01:59:59", false, "2026-03-29T03:00:00+02:00"},
		"spring: the wall clock decides before and after":    {window(berlin, "0 9 * * *", time.Hour), "2026-03-28 12:00", false, "2026-03-29T09:00:00+02:00"},
		"spring: whole days join over the short day":         {window(berlin, "0 0 * * 0,1", 24*time.Hour), "2026-03-29 12:00", true, "2026-03-31T00:00:00+02:00"},
		"spring: the end of a whole short day":               {window(berlin, "0 0 29 3 *", 24*time.Hour), "2026-03-30 00:30", true, "2026-03-30T01:00:00+02:00"},
		"autumn: a window over the change keeps its length":  {window(berlin, "0 1 * * *", 4*time.Hour), "2026-10-25 03:30", true, "2026-10-25T04:00:00+01:00"},
		"autumn: a time that comes twice opens first":        {window(berlin, "30 2 * * *", 30*time.Minute), "2026-10-25T02:45:00+02:00", true, "2026-10-25T03:00:00+02:00"},
		"autumn: is closed between":                          {window(berlin, "30 2 * * *", 30*time.Minute), "2026-10-25T02:15:00+01:00", false, "2026-10-25T02:30:00+01:00"},
		"autumn: and opens again":                            {window(berlin, "30 2 * * *", 30*time.Minute), "2026-10-25T02:45:00+01:00", true, "2026-10-25T03:00:00+01:00"},
		"autumn: two openings an hour apart join":            {window(berlin, "30 2 * * *", time.Hour), "2026-10-25T02:45:00+02:00", true, "2026-10-25T03:30:00+01:00"},
		"autumn: 24 hours leave a gap of one in a long day":  {window(berlin, "0 3 * * *", 24*time.Hour), "2026-10-25T02:30:00+01:00", false, "2026-10-25T03:00:00+01:00"},
		"autumn: and that gap is the end months before":      {window(berlin, "0 3 * * *", 24*time.Hour), "2026-06-01 12:00", true, "2026-10-25T02:00:00+01:00"},
		"autumn: the gap of next year is too far away":       {window(berlin, "0 3 * * *", 24*time.Hour), "2026-10-26 12:00", true, ""},
		"autumn: hourly windows follow each other":           {window(berlin, "0 1-4 * * *", time.Hour), "2026-10-25 01:30", true, "2026-10-25T05:00:00+01:00"},
		"autumn: every second hour leaves a gap":             {window(berlin, "0 1-23/2 * * *", 2*time.Hour), "2026-10-25 01:30", true, "2026-10-25T02:00:00+01:00"},
		"midnight does not exist: the day is not lost":       {window("Africa/Cairo", "0 9 * * 5", time.Hour), "2026-04-23 12:00", false, "2026-04-24T09:00:00+03:00"},
		"midnight does not exist: it opens nothing":          {window("Africa/Cairo", "@daily", time.Hour), "2026-04-23 12:00", false, "2026-04-25T00:00:00+03:00"},
		"a change of half an hour does not lose an opening":  {window("Australia/Lord_Howe", "0 2 * * *", time.Hour), "2026-04-05 00:00", false, "2026-04-05T02:00:00+10:30"},
		"midnight comes twice: both open, an hour apart":     {window("America/Havana", "@daily", 10*time.Minute), "2026-11-01T00:30:00-04:00", false, "2026-11-01T00:00:00-05:00"},
		"a day that a zone left out entirely opens nothing":  {window("Pacific/Apia", "0 9 * * 5", time.Hour), "2011-12-29 12:00", false, "2012-01-06T09:00:00+14:00"},
		"a zone without changes has days of 24 hours":        {window("Asia/Tokyo", "0 3 * * *", 24*time.Hour), "2026-06-01 12:00", true, ""},
		"southern: the change of the other hemisphere holds": {window("America/Santiago", "30 23 * * *", time.Hour), "2026-04-04T23:45:00-04:00", true, "2026-04-05T00:30:00-04:00"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			open, until := windowsOf(t, tc.window).Open(at(t, tc.window.TimeZone, tc.now))
			assert.Equal(t, tc.wantOpen, open)
			want := time.Time{}
			if tc.wantUntil != "" {
				want = at(t, "UTC", tc.wantUntil).UTC()
			}
			assert.Equal(t, want, until)
		})
	}
}

func TestParseWindowsNamesTheFault(t *testing.T) {
	good := rebalance.Window{Schedule: "0 22 * * *", Duration: time.Hour}
	with := func(change func(*rebalance.Window)) rebalance.Window {
		w := good
		change(&w)
		return w
	}
	schedule := func(s string) rebalance.Window {
		return with(func(w *rebalance.Window) { w.Schedule = s })
	}
	duration := func(d time.Duration) rebalance.Window {
		return with(func(w *rebalance.Window) { w.Duration = d })
	}
	zone := func(z string) rebalance.Window {
		return with(func(w *rebalance.Window) { w.TimeZone = z })
	}
	tests := map[string]struct {
		window  rebalance.Window
		wantErr string // "" for a window that is fine
	}{
		"plain":                                {good, ""},
		"names of days and months":             {schedule("0 22 * jan-mar,DEC mon"), ""},
		"@daily":                               {schedule("@daily"), ""},
		"@yearly":                              {schedule("@yearly"), ""},
		"spaces do not matter":                 {schedule("  0\t22 * * * "), ""},
		"the leap day":                         {schedule("0 0 29 2 *"), ""},
		"a question mark is a star":            {schedule("0 22 ? * 1"), ""},
		"the shortest duration":                {duration(time.Minute), ""},
		"the longest duration":                 {duration(168 * time.Hour), ""},
		"a zone":                               {zone("Europe/Berlin"), ""},
		"empty":                                {schedule(""), `schedule: ""`},
		"six fields":                           {schedule("0 0 22 * * *"), `schedule: "0 0 22 * * *"`},
		"four fields":                          {schedule("0 22 * *"), `schedule: "0 22 * *"`},
		"hour 24":                              {schedule("0 24 * * *"), `schedule: "0 24 * * *"`},
		"Sunday is not 7":                      {schedule("0 0 * * 7"), `schedule: "0 0 * * 7"`},
		"@every":                               {schedule("@every 1h"), `schedule: "@every 1h": @every has no wall clock time`},
		"@reboot":                              {schedule("@reboot"), `schedule: "@reboot"`},
		"a descriptor in capitals":             {schedule("@Daily"), `schedule: "@Daily"`},
		"TZ":                                   {schedule("TZ=Europe/Berlin 0 22 * * *"), `schedule: "TZ=Europe/Berlin 0 22 * * *": a schedule has no zone`},
		"CRON_TZ":                              {schedule("CRON_TZ=UTC @daily"), `schedule: "CRON_TZ=UTC @daily": a schedule has no zone`},
		"TZ alone, where robfig/cron panics":   {schedule("TZ=UTC"), `schedule: "TZ=UTC"`},
		"an empty element":                     {schedule("0,,30 22 * * *"), `schedule: "0,,30 22 * * *": field "0,,30" has an empty element`},
		"only a comma, which would never open": {schedule(", * * * *"), `field "," has an empty element`},
		"a star with a bound":                  {schedule("*-5 * * * *"), `field "*-5": only a step may follow "*"`},
		"a day that no year has":               {schedule("0 0 30 2 *"), `schedule: "0 0 30 2 *": there is no such day`},
		"no duration":                          {duration(0), "duration: 0s is not between 1m and 168h"},
		"too short":                            {duration(time.Minute - 1), "duration: 59.999999999s"},
		"too long":                             {duration(168*time.Hour + 1), "duration: 168h0m0.000000001s"},
		"an unknown zone":                      {zone("Mars/Olympus"), `timeZone: "Mars/Olympus": unknown time zone`},
		"the zone of the machine":              {zone("Local"), `timeZone: "Local": depends on the machine`},
		"the zone of the machine, otherwise":   {zone("localtime"), `timeZone: "localtime"`},
		"a path":                               {zone("../../etc/passwd"), `timeZone: "../../etc/passwd"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := rebalance.ParseWindows([]rebalance.Window{good, tc.window})
			if tc.wantErr == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.wantErr)
			assert.Regexp(t, `^windows\[1\]\.(schedule|duration|timeZone): `, err)
		})
	}
}

func TestOpenDoesNotAllocate(t *testing.T) {
	ws := windowsOf(t, rebalance.Window{Schedule: "0 0 * * *", Duration: 24 * time.Hour, TimeZone: "Europe/Berlin"})
	now := at(t, "UTC", "2026-08-01 12:00")
	assert.Zero(t, testing.AllocsPerRun(10, func() { ws.Open(now) }))
}

func BenchmarkOpen(b *testing.B) {
	now := at(b, "UTC", "2026-08-01 12:00:30")
	for name, list := range map[string][]rebalance.Window{
		"closed":      {{Schedule: "0 22 * * *", Duration: 4 * time.Hour, TimeZone: "Europe/Berlin"}},
		"open":        {{Schedule: "0 10 * * *", Duration: 4 * time.Hour, TimeZone: "Europe/Berlin"}},
		"always-open": {{Schedule: "* * * * *", Duration: time.Minute, TimeZone: "Europe/Berlin"}},
		"alternating": {{Schedule: "*/2 * * * *", Duration: time.Minute}, {Schedule: "1-59/2 * * * *", Duration: time.Minute}},
		"leap-day":    {{Schedule: "0 0 29 2 *", Duration: time.Hour}},
	} {
		b.Run(name, func(b *testing.B) {
			ws := windowsOf(b, list...)
			for b.Loop() {
				ws.Open(now)
			}
		})
	}
}

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
