// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// The bounds of Window.Duration.
	shortestWindow = time.Minute
	longestWindow  = 7 * 24 * time.Hour

	// lookAhead is how far Open looks for the end of a window or for the next one: a year, whatever its length.
	lookAhead = 366 * 24 * time.Hour
	// maxJoins bounds the work of Open for windows that interleave minute by minute: a year of windows that follow
	// each other hour by hour stays below it.
	maxJoins = 10_000

	daySeconds = 24 * 60 * 60
)

// Window is a time in which replicas may be moved. It opens by the wall clock of its zone and stays open for an elapsed
// time. So where clocks change, a wall clock time that is skipped opens nothing (a CronJob misses its run in the same
// way), a time that comes twice opens twice, and a window that spans the change keeps its length and closes at another
// wall clock time than usual.
type Window struct {
	// Schedule is when the window opens, in the five cron fields minute, hour, day of the month, month and day of the
	// week, read as CronJobs read them: two restricted day fields mean either, Sunday is 0. @hourly, @daily, @midnight,
	// @weekly, @monthly, @yearly and @annually are short for their five fields.
	Schedule string
	// Duration is how long the window stays open: 1 minute to 7 days of elapsed time. It may be longer than the period
	// of Schedule.
	Duration time.Duration
	// TimeZone is the IANA name of the zone whose wall clock Schedule is about, such as Europe/Berlin; empty means UTC.
	TimeZone string
}

// Windows are the times in which replicas may be moved: in any of the windows. The zero value has no window, which
// means at any time. Build it with ParseWindows.
type Windows struct {
	windows []window
}

// window is a Window made ready for arithmetic. Its wall clock is counted in seconds as if the zone were UTC.
type window struct {
	zone     *time.Location
	duration time.Duration
	days     *cron.SpecSchedule // of the midnights of the days on which it opens
	openings []int64            // second of the day of each opening, ascending; never empty
	// runEnds[i] is the last opening of the run that openings[i] belongs to: openings that follow each other within
	// duration, so that the window does not close between them. It lets Open step over a run instead of through it.
	runEnds []int64
}

// ParseWindows parses windows. The error names the field and the value at fault, as in
// `windows[1].timeZone: "Mars": …`; the Windows beside an error must not be used.
func ParseWindows(list []Window) (Windows, error) {
	ws := Windows{windows: make([]window, 0, len(list))}
	for i, w := range list {
		p, err := parseWindow(w)
		if err != nil {
			return Windows{}, fmt.Errorf("windows[%d].%w", i, err)
		}
		ws.windows = append(ws.windows, p)
	}
	return ws, nil
}

func parseWindow(w Window) (window, error) {
	spec, err := parseSchedule(w.Schedule)
	if err != nil {
		return window{}, fmt.Errorf("schedule: %q: %w", w.Schedule, err)
	}
	if w.Duration < shortestWindow || w.Duration > longestWindow {
		return window{}, fmt.Errorf("duration: %v is not between 1m and 168h", w.Duration)
	}
	zone, err := parseZone(w.TimeZone)
	if err != nil {
		return window{}, fmt.Errorf("timeZone: %q: %w", w.TimeZone, err)
	}
	days := *spec
	days.Second, days.Minute, days.Hour = 1, 1, 1 // 00:00:00
	p := window{zone: zone, duration: w.Duration, days: &days}
	for minute := range int64(24 * 60) {
		if spec.Hour&(1<<(minute/60)) != 0 && spec.Minute&(1<<(minute%60)) != 0 {
			p.openings = append(p.openings, minute*60)
		}
	}
	p.runEnds = slices.Clone(p.openings)
	for i := len(p.openings) - 2; i >= 0; i-- {
		if time.Duration(p.openings[i+1]-p.openings[i])*time.Second <= w.Duration {
			p.runEnds[i] = p.runEnds[i+1]
		}
	}
	return p, nil
}

// anyDay is where the days of a schedule are looked for.
var anyDay = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

func parseSchedule(s string) (*cron.SpecSchedule, error) {
	// robfig/cron takes a zone at the start, and panics if nothing follows it.
	if strings.Contains(s, "TZ=") {
		return nil, errors.New("a schedule has no zone, the time zone is a field of its own")
	}
	if !strings.HasPrefix(s, "@") {
		for field := range strings.FieldsSeq(s) {
			if err := checkField(field); err != nil {
				return nil, err
			}
		}
	}
	parsed, err := cron.ParseStandard(s)
	if err != nil {
		return nil, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("@every has no wall clock time, write the five fields")
	}
	if spec.Next(anyDay).IsZero() { // none in five years, one of which is a leap year
		return nil, errors.New("there is no such day in any year")
	}
	return spec, nil
}

// checkField refuses what robfig/cron reads differently: "*-5" as "*", and empty elements as nothing.
func checkField(field string) error {
	for element := range strings.SplitSeq(field, ",") {
		if element == "" {
			return fmt.Errorf("field %q has an empty element", field)
		}
		if rest := element[1:]; strings.ContainsRune("*?", rune(element[0])) && rest != "" && rest[0] != '/' {
			return fmt.Errorf("field %q: only a step may follow %q", field, element[:1])
		}
	}
	return nil
}

func parseZone(name string) (*time.Location, error) {
	// The zone of the machine is not a name: replicas of the controller could differ in it.
	if strings.EqualFold(name, "local") || strings.EqualFold(name, "localtime") {
		return nil, errors.New("depends on the machine, use an IANA name")
	}
	return time.LoadLocation(name)
}

// Open reports whether replicas may be moved at now, and until when that holds: the end of the window if open, the
// next opening if closed, in UTC. Windows that overlap or touch are one window. The zero time means that the answer
// does not change within 366 days, or that there are no windows, which is always open.
//
// A window is open from the moment of its opening until just before its end.
func (ws Windows) Open(now time.Time) (open bool, until time.Time) {
	if len(ws.windows) == 0 {
		return true, time.Time{}
	}
	limit, end := now.Add(lookAhead), now
	for range maxJoins {
		extended := ws.extend(end)
		switch {
		case extended.After(limit):
			return true, time.Time{}
		case extended.After(end):
			end = extended
		case end.After(now):
			return true, end.UTC()
		default:
			return false, ws.next(now, limit)
		}
	}
	return true, time.Time{}
}

// extend returns the latest end, after t, of a window that opened at or before t; t if there is none.
func (ws Windows) extend(t time.Time) time.Time {
	end := t
	for i := range ws.windows {
		if e := ws.windows[i].extend(t); e.After(end) {
			end = e
		}
	}
	return end
}

// next returns the first opening after now, up to limit.
func (ws Windows) next(now, limit time.Time) time.Time {
	from, to, found := now.Unix()+1, limit.Unix()+1, false
	for i := range ws.windows {
		if opening, ok := ws.windows[i].first(from, to); ok {
			to, found = opening, true
		}
	}
	if !found {
		return time.Time{}
	}
	return time.Unix(to, 0).UTC()
}

func (w *window) extend(t time.Time) time.Time {
	// All openings of a window last equally long, so the latest ends last.
	opening, ok := w.last(t.Add(-w.duration).Unix(), t.Unix()+1)
	if !ok || !time.Unix(opening, 0).Add(w.duration).After(t) {
		return t
	}
	return time.Unix(w.runEnd(opening), 0).Add(w.duration)
}

// runEnd returns the last opening of the run of an opening on the same day; the opening itself where the clocks change
// in between, because the run is counted on the wall clock.
func (w *window) runEnd(opening int64) int64 {
	p := w.periodOf(opening)
	wall := opening + p.offset
	day := startOfDay(wall)
	i, _ := slices.BinarySearch(w.openings, wall-day)
	if end := day + w.runEnds[i] - p.offset; end < p.end {
		return end
	}
	return opening
}

// period is a stretch of time in which the offset of a zone does not change. Wall clock = Unix time + offset.
type period struct {
	start, end int64 // Unix time, end excluded
	offset     int64 // seconds east of UTC
}

func (w *window) periodOf(unix int64) period {
	t := time.Unix(unix, 0).In(w.zone)
	_, offset := t.Zone()
	p := period{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset)}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	return p
}

// first returns the earliest opening in [from, to), Unix time.
//
// robfig/cron's own Next is used for days only, in UTC: in another zone it loses days whose midnight is skipped and times after
// half-hour changes, and never returns where a zone left out a day.
func (w *window) first(from, to int64) (int64, bool) {
	for from < to {
		p := w.periodOf(from)
		end := min(p.end, to)
		if wall, ok := w.firstWall(from+p.offset, end+p.offset); ok {
			return wall - p.offset, true
		}
		from = end
	}
	return 0, false
}

// last returns the latest opening in [from, to), Unix time.
func (w *window) last(from, to int64) (int64, bool) {
	for from < to {
		p := w.periodOf(to - 1)
		start := max(p.start, from)
		if wall, ok := w.lastWall(start+p.offset, to+p.offset); ok {
			return wall - p.offset, true
		}
		to = start
	}
	return 0, false
}

func (w *window) firstWall(from, to int64) (int64, bool) {
	day := startOfDay(from)
	for {
		i, _ := slices.BinarySearch(w.openings, from-day)
		if i == len(w.openings) {
			i, day = 0, day+daySeconds
		}
		next, ok := w.nextDay(day)
		if !ok || next >= to {
			return 0, false
		}
		if next == day {
			opening := day + w.openings[i]
			return opening, opening < to
		}
		day = next
	}
}

func (w *window) lastWall(from, to int64) (int64, bool) {
	for day := startOfDay(to - 1); day+daySeconds > from; day -= daySeconds {
		if i, _ := slices.BinarySearch(w.openings, to-day); i > 0 && w.opensOn(day) {
			opening := day + w.openings[i-1]
			return opening, opening >= from
		}
	}
	return 0, false
}

func startOfDay(wall int64) int64 {
	return wall - ((wall%daySeconds)+daySeconds)%daySeconds
}

// nextDay returns the first day from one on, both by their midnight, on which the window opens. It is false if there is none in five
// years.
func (w *window) nextDay(day int64) (int64, bool) {
	next := w.days.Next(time.Unix(day-1, 0).UTC())
	return next.Unix(), !next.IsZero()
}

func (w *window) opensOn(day int64) bool {
	next, ok := w.nextDay(day)
	return ok && next == day
}
