// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/internal/kube/display"
)

const (
	// mostDots bounds the runs of the comparison, and mostNamed those that have their name beside their dot.
	mostDots, mostNamed = 1000, 12
	// dot is half of the size of a dot.
	dot = 4.5
	// longestLabel bounds a name beside a dot.
	longestLabel = 24
)

// comparison is the picture of cost and missing replicas of all runs, with the Pareto front. The table of the figures has its numbers.
func (m *markup) comparison(runs []Run) {
	front := Front(runs)
	m.leaf("h2", "Cost and missing replicas")
	if len(front) == 0 {
		m.leaf("p", "No run has a known cost, so none is drawn.")
		return
	}
	m.open("figure")
	drawn, numbered := m.drawComparison(runs, front)
	m.leaf("figcaption", caption(len(runs), drawn))
	m.close("figure")
	if numbered {
		m.numbersOf(runs, front)
	}
}

// drawComparison draws the runs, and returns how many, and whether those on the front have numbers instead of names.
func (m *markup) drawComparison(runs []Run, front []int) (drawn int, numbered bool) {
	on := sets.New(front...)
	dots := dotsOf(runs, front, on)
	dearest, most := 0.0, 0.0
	for _, i := range dots {
		dearest, most = max(dearest, *runs[i].Dollars), max(most, runs[i].BelowWantedReplicaMinutes)
	}
	x, y := numbers(dearest, left, width-right), numbers(most, height-bottom, top)
	m.picture("comparison", "Cost and replica-minutes below the wanted number of each run", describeFront(runs, front))
	m.axes(&x, &y, label, "cost in $", "replica-minutes below the wanted number")
	var path strings.Builder
	for n, i := range front {
		across, up := px(x.at(*runs[i].Dollars)), px(y.at(runs[i].BelowWantedReplicaMinutes))
		if n == 0 {
			path.WriteString("M" + across + " " + up)
			continue
		}
		path.WriteString("H" + across + "V" + up)
	}
	if len(front) <= mostDots {
		m.empty("path", "class", "front", "d", path.String())
	}
	labels, numbered := names(runs, dots, front)
	var placed texts
	for _, i := range dots {
		m.dot(&runs[i], x.at(*runs[i].Dollars), y.at(runs[i].BelowWantedReplicaMinutes), on.Has(i), labels[i], &placed)
	}
	m.close("svg")
	return len(dots), numbered
}

// dotsOf are the runs that are drawn, those on the front last, so that they are in front of the others.
func dotsOf(runs []Run, front []int, on sets.Set[int]) (list []int) {
	for i := range runs {
		if compared(&runs[i]) && !on.Has(i) && len(list) < mostDots-min(len(front), mostDots) {
			list = append(list, i)
		}
	}
	return append(list, front[:min(len(front), mostDots)]...)
}

// dot draws a run: a diamond on the front, or else a circle. Its label is left out where there is no space for it.
func (m *markup) dot(r *Run, x, y float64, best bool, label string, placed *texts) {
	m.open("g")
	m.leaf("title", fmt.Sprintf("%s: $%s, %s replica-minutes", name(r.Policy), cost(r.Dollars), decimal(r.BelowWantedReplicaMinutes, 1)))
	if best {
		const half = dot + 1.5
		m.empty("path", "class", "best", "d", "M"+px(x)+" "+px(y-half)+"L"+px(x+half)+" "+px(y)+"L"+px(x)+" "+px(y+half)+"L"+px(x-half)+" "+px(y)+"Z")
	} else {
		m.empty("circle", "class", "run", "cx", px(x), "cy", px(y), "r", px(dot))
	}
	if label != "" {
		if t := placed.place(label, x, y); t != nil {
			m.leaf("text", t.of, "x", px(t.x), "y", px(t.y), "text-anchor", t.anchor)
		}
	}
	m.close("g")
}

func caption(runs, drawn int) string {
	text := "Diamonds are on the Pareto front, circles are not. The table of the figures has the numbers."
	if n := runs - drawn; n > 0 {
		text += " " + display.Clause(n, "run", "is", "are") + " not drawn: the cost is unknown, or there are too many."
	}
	return text
}

// describeFront is the picture in words.
func describeFront(runs []Run, front []int) string {
	var parts []string
	for _, i := range front[:min(len(front), mostNamed)] {
		r := &runs[i]
		parts = append(parts, fmt.Sprintf("%s with $%s and %s replica-minutes", name(r.Policy), cost(r.Dollars), decimal(r.BelowWantedReplicaMinutes, 1)))
	}
	text := "On the Pareto front, by cost: " + strings.Join(parts, "; ")
	if more := len(front) - mostNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text + "."
}
