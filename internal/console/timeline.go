// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

const (
	// The picture of a day has a mark for each quarter of an hour in which something happened.
	dayWidth, laneHeight, laneTop, markWidth = 960, 15, 4, 9
	quarters                                 = 96
	// mostListed bounds the list of the page, and fewListed that of the overview.
	mostListed, fewListed = 200, 6
)

// dayView is the timeline of the last day.
type dayView struct {
	// Problem is why there are no events.
	Problem string
	Height  int
	Lanes   []laneView
	Hours   []hourView
	// Reach is how far back the events reach.
	Reach   string
	Entries []entryView
	More    int
	// Whole is set on the page of the timeline.
	Whole bool
}

// laneView is what happened of one kind.
type laneView struct {
	Name, Words string
	Y, TextY    int
	Marks       []rect
}

// hourView is a line of the picture with its time.
type hourView struct {
	X    int
	Text string
}

// entryView is one happening.
type entryView struct {
	At              time.Time
	Clock, Lane     string
	Bad             bool
	Object, URL     string
	Reason, Message string
}

// timeline serves the page of the last 24 hours, or with a part in the URL only its element.
func (c *Console) timeline(w http.ResponseWriter, r *http.Request) {
	if c.reports == nil {
		c.notFound(w, r)
		return
	}
	s, err := c.hub.current(r.Context(), sessionOf(r))
	if err != nil {
		return // the client is gone
	}
	if s.Reading == nil {
		c.page(w, r)
		return
	}
	events, err := c.happenings(r.Context(), userOf(r))
	part := r.URL.Query().Has("part")
	v := dayOf(overview.TimelineOf(s.Reading, events, c.hub.now()), events, !part)
	if err != nil {
		v.Problem = "Moves and borrowing are unknown: " + inert(plainly(err))
	}
	if part {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := templates.ExecuteTemplate(w, "timeline", v); err != nil {
			c.log.Debug("Write the timeline", "err", err) // the client is gone
		}
		return
	}
	c.write(w, r, http.StatusOK, timelineOf(s, v), r.URL)
}

func timelineOf(s *state, v *dayView) *page {
	return &page{title: "Last 24 hours", parts: append(status(s), &part{id: "timeline", before: render("timeline-page", v), fixed: true})}
}

// timelinePage is the page without its timeline: the parts that follow the cluster.
func timelinePage(_ []string, _ url.Values, s *state) (*page, error) {
	return timelineOf(s, &dayView{Whole: true}), nil
}

// happenings reads the events with the rights of the user.
func (c *Console) happenings(ctx context.Context, user string) ([]overview.Happening, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	done, err := c.reading.take(ctx, user, "other reports")
	if err != nil {
		return nil, err
	}
	defer done()
	return c.reports.Happenings(ctx, c.namespace)
}

func dayOf(t *overview.Timeline, events []overview.Happening, whole bool) *dayView {
	v := &dayView{Whole: whole, Reach: reachOf(events, t), Height: laneTop + laneHeight*(len(overview.Lanes())+1)}
	for i, lane := range overview.Lanes() {
		v.Lanes = append(v.Lanes, laneOf(t, lane, laneTop+i*laneHeight))
	}
	for at := t.From.UTC().Truncate(time.Hour).Add(time.Hour); at.Before(t.To); at = at.Add(time.Hour) {
		if at.Hour()%4 == 0 {
			v.Hours = append(v.Hours, hourView{int(at.Sub(t.From) * dayWidth / overview.Day), at.Format("15:04")})
		}
	}
	most := fewListed
	if whole {
		most = mostListed
	}
	n := min(most, len(t.Happenings))
	v.More = len(t.Happenings) - n
	for i := range t.Happenings[:n] {
		v.Entries = append(v.Entries, entryOf(&t.Happenings[i]))
	}
	return v
}

func laneOf(t *overview.Timeline, lane overview.Lane, y int) laneView {
	v := laneView{Name: string(lane), Y: y, TextY: y + laneHeight - 4}
	var classes [quarters]string
	n := 0
	for i := range t.Happenings {
		if h := &t.Happenings[i]; h.Lane == lane {
			n++
			at := min(quarters-1, max(0, int(h.Time.Sub(t.From)*quarters/overview.Day)))
			if classes[at] = "score"; h.Bad {
				classes[at] = "bad"
			}
		}
	}
	for i, class := range classes {
		if class != "" {
			v.Marks = append(v.Marks, rect{class, i * dayWidth / quarters, y, markWidth, laneHeight - 4})
		}
	}
	v.Words = fmt.Sprintf("%s: %d", v.Name, n)
	return v
}

func entryOf(h *overview.Happening) entryView {
	e := entryView{
		At: h.Time.UTC(), Clock: h.Time.UTC().Format("15:04:05"), Lane: string(h.Lane), Bad: h.Bad, Object: h.Namespace + "/" + h.Name,
		Reason: h.Reason, Message: h.Message,
	}
	switch h.Kind {
	case "Pod":
		e.URL = objectURL("pods", h.Namespace, h.Name)
	case "CapacityMix":
		e.URL = objectURL("mixes", h.Namespace, h.Name)
	case "":
	default:
		e.URL = "/workloads/" + url.PathEscape(h.Namespace) + "/" + url.PathEscape(h.Kind) + "/" + url.PathEscape(h.Name)
	}
	return e
}

// reachOf is how far back the events reach: the API server keeps them for an hour, unless it is configured otherwise.
func reachOf(events []overview.Happening, t *overview.Timeline) string {
	oldest := t.To
	for i := range events {
		if events[i].Time.Before(oldest) {
			oldest = events[i].Time
		}
	}
	text := "Changes of mixes and rollouts reach back 24 hours. Moves and borrowing are events, which the API server keeps for an hour by default"
	if len(events) == 0 {
		return text + ": there are none now."
	}
	return fmt.Sprintf("%s: the oldest of %s is of %s.", text, display.Count(len(events), "event"), oldest.UTC().Format("2006-01-02 15:04 UTC"))
}
