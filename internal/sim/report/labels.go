// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"berth.dev/berth/internal/kube/display"
)

const (
	// letter and line are the size of a letter in a picture, rather more than it has.
	letter, line = 7.5, 14.0
	// aside is the distance of a text from its dot.
	aside = 9.0
)

// text is a text beside a dot. It begins or ends at x, and y is its baseline.
type text struct {
	of, anchor string
	x, y       float64
}

// from and to are where a text begins and ends.
func (t *text) from() float64 {
	if t.anchor == "end" {
		return t.x - t.wide()
	}
	return t.x
}

func (t *text) to() float64 { return t.from() + t.wide() }

func (t *text) wide() float64 { return letter * float64(utf8.RuneCountInString(t.of)) }

func (t *text) overlaps(other *text) bool {
	return t.from() < other.to() && other.from() < t.to() && t.y < other.y+line && other.y < t.y+line
}

// texts are those that a picture has already.
type texts []text

// place returns a text beside a dot that covers no other one, nil where there is no space. The sides of the dot are tried in turn.
func (l *texts) place(of string, x, y float64) *text {
	sides := []text{{of, "start", x + aside, y - 6}, {of, "end", x - aside, y - 6}}
	if x > width*0.75 {
		slices.Reverse(sides)
	}
	for _, t := range sides {
		below := t
		below.y = y + line + 2
		sides = append(sides, below)
	}
	for i := range sides {
		t := &sides[i]
		inside := t.from() >= 0 && t.to() <= width && t.y >= line && t.y <= height-bottom+aside
		if inside && !slices.ContainsFunc(*l, func(other text) bool { return t.overlaps(&other) }) {
			*l = append(*l, *t)
			return t
		}
	}
	return nil
}

// names are the labels of the runs that are drawn, and whether these are numbers on the front: a few short names are readable, many are
// not.
func names(runs []Run, dots, front []int) (labels map[int]string, numbered bool) {
	labels = map[int]string{}
	for _, i := range dots {
		labels[i] = display.Inert(runs[i].Policy, longestLabel)
		numbered = numbered || labels[i] != name(runs[i].Policy)
	}
	if !numbered && len(dots) <= mostNamed {
		return labels, false
	}
	clear(labels)
	for n, i := range front {
		labels[i] = strconv.Itoa(n + 1)
	}
	return labels, true
}

// numbersOf is the table of the numbers on the front.
func (m *markup) numbersOf(runs []Run, front []int) {
	rows := [][]string{{"NUMBER", "POLICY", "COST($)", "BELOW-WANTED(replica-min)"}}
	for n, i := range front[:min(len(front), mostDots)] {
		r := &runs[i]
		rows = append(rows, []string{strconv.Itoa(n + 1), name(r.Policy), cost(r.Dollars), decimal(r.BelowWantedReplicaMinutes, 1)})
	}
	m.grid("The runs on the Pareto front, by cost.", rows)
}
