// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strings"

	"berth.dev/berth/test/perf/bench"
)

// plot is a curve for each peer over one dimension, both axes logarithmic.
type plot struct {
	file, title, x, y string
	lines             map[string][]point
}

type point struct{ x, y float64 }

// plots are the curves for which there are results.
func plots(suites map[string]*bench.Suite) (list []plot) {
	for _, c := range []struct{ suite, prefix, by, metric, file, title, x, y string }{
		{"cycle", "basic/", "nodes", cpu, "nodes.svg", "Processor time of a scheduling cycle", "nodes", "µs for each pod"},
		{"cycle", "basic/", "nodes", "pods_per_s", "nodes-throughput.svg", "Scheduling cycles on one core", "nodes", "pods a second"},
		{
			"cycle", "replicated/", "nodes", cpu, "replicated.svg", "The same, pods of ReplicaSets, two existing for each node", "nodes",
			"µs for each pod",
		},
		{
			"cycle", "groups/in turn/", "groups", cpu, "groups.svg", "5,000 nodes, by the number of workloads", "workloads",
			"µs for each pod",
		},
		{
			"cycle", "filled/", "existing", cpu, "existing.svg", "5,000 nodes, by the number of existing pods", "existing pods",
			"µs for each pod",
		},
		{
			"shards", "full=90%/", "leaders", "pods_per_s", "shards.svg", "100,000 nodes, a million pods, simulated", "leaders",
			"pods a second",
		},
	} {
		p := plot{file: c.file, title: c.title, x: c.x, y: c.y, lines: map[string][]point{}}
		s := suites[c.suite]
		if s == nil {
			continue
		}
		for i := range s.Results {
			r := &s.Results[i]
			if !strings.HasPrefix(r.Name, c.prefix) {
				continue
			}
			for _, peer := range r.Peers() {
				if y := r.Median(peer, c.metric); y > 0 {
					p.lines[peer] = append(p.lines[peer], point{r.At[c.by], y})
				}
			}
		}
		for _, line := range p.lines {
			slices.SortFunc(line, func(a, b point) int { return cmp.Compare(a.x, b.x) })
		}
		if len(p.lines) > 0 {
			list = append(list, p)
		}
	}
	return list
}

const (
	width, height           = 760, 440
	left, right, top, under = 80, 150, 40, 50
)

// colours that people who see colours differently can distinguish.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999", "#8c564b", "#b5a600"}

func (p *plot) svg() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width,
		height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/><text x="%d" y="20" font-size="14">%s</text>`+"\n", width, height, left,
		html.EscapeString(p.title))
	xs, ys := p.scales()
	for _, tick := range xs.ticks() {
		x := left + xs.at(tick)*(width-left-right)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, top, x, height-under, x, height-under+16, short(tick))
	}
	for _, tick := range ys.ticks() {
		y := height - under - ys.at(tick)*(height-top-under)
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y, width-right, y, left-6, y+4, short(tick))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-12, html.EscapeString(p.x))
	fmt.Fprintf(&b, `<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+height-under)/2,
		html.EscapeString(p.y))
	// The legend has the order of the lines' ends.
	names := slices.SortedFunc(maps.Keys(p.lines), func(a, c string) int {
		return cmp.Or(cmp.Compare(p.lines[c][len(p.lines[c])-1].y, p.lines[a][len(p.lines[a])-1].y), cmp.Compare(a, c))
	})
	for i, name := range names {
		colour := colours[i%len(colours)]
		points := make([]string, 0, len(p.lines[name]))
		for _, at := range p.lines[name] {
			x, y := left+xs.at(at.x)*(width-left-right), height-under-ys.at(at.y)*(height-top-under)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x, y, colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, strings.Join(points, " "), colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", width-right+12, top+12+18*i, colour, html.EscapeString(name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// scale is a logarithmic axis.
type scale struct{ from, to float64 }

func (p *plot) scales() (x, y scale) {
	x, y = scale{math.Inf(1), 0}, scale{math.Inf(1), 0}
	for _, line := range p.lines {
		for _, at := range line {
			x.from, x.to = min(x.from, at.x), max(x.to, at.x)
			y.from, y.to = min(y.from, at.y), max(y.to, at.y)
		}
	}
	y.from, y.to = y.from/1.3, y.to*1.3
	return x, y
}

// at is where a value lies on the axis, from 0 to 1.
func (s scale) at(v float64) float64 {
	if s.to <= s.from {
		return 0.5
	}
	return math.Log(v/s.from) / math.Log(s.to/s.from)
}

// ticks are 1, 2 and 5 times powers of ten within the axis.
func (s scale) ticks() (list []float64) {
	for power := math.Pow(10, math.Floor(math.Log10(s.from))); power <= s.to; power *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := m * power; v >= s.from*0.999 && v <= s.to*1.001 {
				list = append(list, v)
			}
		}
	}
	return list
}

func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%g M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%g k", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
