// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/kube/display"
)

// markHeight is that of the marks below the axis, markWidth the least width of one: a short gap has to be seen.
const markHeight, markWidth = 6.0, 2.0

// timeline is the picture of a run with its legend, and as a table.
func (m *markup) timeline(i int, run *Run, seconds float64) {
	m.open("figure")
	m.drawTimeline(i, run, seconds)
	m.open("figcaption", "class", "key")
	m.raw("Ready replicas over time.")
	m.key("on spot nodes", func() {
		m.empty("rect", "class", "spot", "width", "32", "height", "16")
		m.empty("path", "class", "stripe", "d", "M4 16 16 4M16 16 28 4")
	})
	m.key("on on-demand nodes", func() { m.empty("rect", "class", "on-demand", "width", "32", "height", "16") })
	m.key("wanted", func() { m.empty("path", "class", "wanted", "d", "M0 8H32") })
	m.key("replicas are missing", func() { m.empty("rect", "class", "missing", "y", "5", "width", "32", "height", "6") })
	m.close("figcaption")
	m.close("figure")
	m.open("details")
	m.leaf("summary", "The picture as a table")
	m.grid("Of each part of the time, the moment at which the most replicas were missing.", rowsOf(run.Series))
	m.close("details")
}

// drawTimeline draws a run: the Ready replicas on on-demand and on spot nodes, above each other, the wanted number, and marks
// where replicas are missing.
func (m *markup) drawTimeline(i int, run *Run, seconds float64) {
	series := Downsample(run.Series, mostPoints)
	most := 0
	for j := range series {
		most = max(most, series[j].Wanted, series[j].Ready())
	}
	x, y := times(max(seconds, series[len(series)-1].Seconds), left, width-right), whole(most, height-bottom, top)
	m.picture(id(i), "Ready replicas of "+name(run.Policy), describe(run))
	m.open("defs")
	m.open("pattern", "id", "stripes-"+id(i), "width", "7", "height", "7", "patternUnits", "userSpaceOnUse", "patternTransform", "rotate(45)")
	m.empty("line", "class", "stripe", "y2", "7")
	m.close("pattern")
	m.close("defs")
	m.axes(&x, &y, clock, "time since the start", "replicas")
	none := func(*Sample) int { return 0 }
	onDemand := func(s *Sample) int { return s.ReadyOnDemand }
	m.empty("path", "class", "on-demand", "d", area(series, &x, &y, none, onDemand))
	spot := area(series, &x, &y, onDemand, (*Sample).Ready)
	m.empty("path", "class", "spot", "d", spot)
	m.empty("path", "fill", "url(#stripes-"+id(i)+")", "d", spot)
	m.empty("path", "class", "wanted", "d", steps(series, &x, &y, func(s *Sample) int { return s.Wanted }))
	for _, gap := range gaps(series, x.most) {
		from, to := x.at(gap.from), x.at(gap.to)
		wide := max(to-from, markWidth)
		m.empty("rect", "class", "missing", "x", px(min(from, width-right-wide)), "y", px(y.from+5), "width", px(wide), "height", px(markHeight))
	}
	m.close("svg")
}

// key is an entry of the legend.
func (m *markup) key(text string, draw func()) {
	m.open("svg", "viewBox", "0 0 32 16", "aria-hidden", "true")
	draw()
	m.close("svg")
	m.leaf("span", text)
}

// describe is the picture of a run in words.
func describe(run *Run) string {
	text := fmt.Sprintf("%s of wanted replica-minutes are Ready. %s replica-minutes are below the wanted number",
		percent(run), decimal(run.BelowWantedReplicaMinutes, 1))
	worst := &run.Series[0]
	for i := range run.Series {
		if s := &run.Series[i]; s.Missing() > worst.Missing() {
			worst = s
		}
	}
	if n := worst.Missing(); n > 0 {
		text += fmt.Sprintf("; most are missing at %s: %d of %d", since(worst.Seconds), n, worst.Wanted)
	}
	return text + "."
}

func percent(run *Run) string {
	if s := share(run.ReadyReplicaMinutes, run.WantedReplicaMinutes); s != display.Unknown {
		return s + " %"
	}
	return display.Unknown
}

// steps is the line of a number, which holds until the next sample and from the last one to the end.
func steps(series []Sample, x, y *axis, of func(*Sample) int) string {
	var d strings.Builder
	last := px(y.at(float64(of(&series[0]))))
	d.WriteString("M" + px(x.at(series[0].Seconds)) + " " + last)
	for i := range series {
		if up := px(y.at(float64(of(&series[i])))); up != last {
			d.WriteString("H" + px(x.at(series[i].Seconds)) + "V" + up)
			last = up
		}
	}
	d.WriteString("H" + px(x.to))
	return d.String()
}

// area is what is between two numbers: along the upper one, and back along the lower one.
func area(series []Sample, x, y *axis, lower, upper func(*Sample) int) string {
	var d strings.Builder
	d.WriteString(steps(series, x, y, upper))
	last := px(y.at(float64(lower(&series[len(series)-1]))))
	d.WriteString("V" + last)
	for i := len(series) - 2; i >= 0; i-- {
		if down := px(y.at(float64(lower(&series[i])))); down != last {
			d.WriteString("H" + px(x.at(series[i+1].Seconds)) + "V" + down)
			last = down
		}
	}
	d.WriteString("H" + px(x.at(series[0].Seconds)) + "Z")
	return d.String()
}

// gap is a time in which replicas are missing.
type gap struct{ from, to float64 }

// gaps joins the samples at which replicas are missing. A sample is until the next one, the last one until the end.
func gaps(series []Sample, end float64) (list []gap) {
	for i := range series {
		if series[i].Missing() == 0 {
			continue
		}
		until := end
		if i+1 < len(series) {
			until = series[i+1].Seconds
		}
		if n := len(list); n > 0 && list[n-1].to == series[i].Seconds {
			list[n-1].to = until
			continue
		}
		list = append(list, gap{series[i].Seconds, until})
	}
	return list
}

// rowsOf is the series as a table: of each part, the sample with the most missing replicas.
func rowsOf(series []Sample) [][]string {
	rows := [][]string{{
		"TIME(h:min:s)", "WANTED(replicas)", "SPOT(replicas)", "ON-DEMAND(replicas)", "MISSING(replicas)", "PENDING(replicas)",
		"BELOW-FLOOR(replicas)", "SPOT(nodes)", "ON-DEMAND(nodes)",
	}}
	parts := min(len(series), mostRows)
	for part := range parts {
		from, to := len(series)*part/parts, len(series)*(part+1)/parts
		worst := &series[from]
		for i := from; i < to; i++ {
			if series[i].Missing() > worst.Missing() {
				worst = &series[i]
			}
		}
		row := []string{since(worst.Seconds)}
		for _, n := range []int{
			worst.Wanted, worst.ReadySpot, worst.ReadyOnDemand, worst.Missing(), worst.Pending, worst.BelowFloor,
			worst.SpotNodes, worst.OnDemandNodes,
		} {
			row = append(row, fmt.Sprint(n))
		}
		rows = append(rows, row)
	}
	return rows
}
