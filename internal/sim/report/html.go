// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strconv"

	"berth.dev/berth/internal/kube/display"
)

const (
	// mostPoints bounds the samples of a picture, mostPictures the pictures of a page, and mostRows the rows of the table of a picture.
	mostPoints, mostPictures, mostRows = 482, 60, 24
	// mostRuns bounds the rows of the table of runs.
	mostRuns = 2000
)

// HTML writes a page with all figures and pictures. It needs no other file.
func HTML(w io.Writer, r *Result) error {
	m := newMarkup(w)
	m.raw("<!DOCTYPE html>\n")
	m.open("html", "lang", "en")
	m.open("head")
	m.empty("meta", "charset", "utf-8")
	m.empty("meta", "name", "viewport", "content", "width=device-width, initial-scale=1")
	m.leaf("title", "Simulation of "+name(r.Scenario))
	m.open("style")
	m.raw(style())
	m.close("style")
	m.close("head")
	m.open("body")
	m.open("main")
	m.leaf("h1", "Simulation of "+name(r.Scenario))
	m.leaf("p", r.head())
	m.runs(r)
	m.comparison(r.Runs)
	m.pictures(r)
	m.close("main")
	m.close("body")
	m.close("html")
	return m.w.Flush()
}

// runs is the table of the figures, with what they are.
func (m *markup) runs(r *Result) {
	m.leaf("h2", "Figures", "id", "figures")
	rows := table(r.Runs[:min(len(r.Runs), mostRuns)])
	m.grid("Each row is a run of the same scenario.", rows)
	if more := len(r.Runs) - mostRuns; more > 0 {
		m.leaf("p", fmt.Sprintf("JSON has %s more.", display.Count(more, "run")))
	}
	m.list(r.Notes)
	var descriptions []string
	for i := range r.Runs[:min(len(r.Runs), mostPictures)] {
		if run := &r.Runs[i]; run.Description != "" {
			descriptions = append(descriptions, name(run.Policy)+": "+run.Description)
		}
	}
	m.list(descriptions)
}

func (m *markup) list(sentences []string) {
	if len(sentences) == 0 {
		return
	}
	m.open("ul")
	for _, s := range sentences {
		m.leaf("li", sentence(s))
	}
	m.close("ul")
}

// grid is a table whose first column names the rows.
func (m *markup) grid(caption string, rows [][]string) {
	m.open("div", "class", "wide", "tabindex", "0", "role", "region", "aria-label", caption)
	m.open("table")
	m.leaf("caption", caption)
	m.open("thead")
	m.open("tr")
	for _, head := range rows[0] {
		m.leaf("th", head, "scope", "col")
	}
	m.close("tr")
	m.close("thead")
	m.open("tbody")
	for _, row := range rows[1:] {
		m.open("tr")
		m.leaf("th", row[0], "scope", "row")
		for _, cell := range row[1:] {
			m.leaf("td", cell)
		}
		m.close("tr")
	}
	m.close("tbody")
	m.close("table")
	m.close("div")
}

// pictures has one of each run that has a series, those on the front first, as far as they are not too many.
func (m *markup) pictures(r *Result) {
	drawn, left := 0, 0
	for _, i := range order(r.Runs) {
		run := &r.Runs[i]
		switch {
		case len(run.Series) == 0:
		case drawn == mostPictures:
			left++
		default:
			drawn++
			m.leaf("h2", name(run.Policy))
			m.timeline(i, run, r.Seconds)
		}
	}
	if left > 0 {
		m.leaf("p", display.Clause(left, "more run", "has", "have")+" no picture. Those on the Pareto front have the first ones.")
	}
}

// order is that of the runs, unless there are too many for a picture of each: then those on the front are first.
func order(runs []Run) (list []int) {
	front := map[int]bool{}
	if len(runs) > mostPictures {
		list = Front(runs)
		for _, i := range list {
			front[i] = true
		}
	}
	for i := range runs {
		if !front[i] {
			list = append(list, i)
		}
	}
	return list
}

// picture begins an SVG with a title and a description, which a screen reader reads.
func (m *markup) picture(id, title, description string) {
	attributes := []string{"viewBox", "0 0 " + px(width) + " " + px(height), "role", "img", "aria-labelledby", id + "-title " + id + "-desc"}
	if m.alone {
		attributes = append(attributes, "xmlns", "http://www.w3.org/2000/svg")
	}
	m.open("svg", attributes...)
	m.leaf("title", title, "id", id+"-title")
	m.leaf("desc", description, "id", id+"-desc")
	if m.alone {
		m.open("style")
		m.raw(pictureStyle())
		m.close("style")
	}
}

// axes draws the grid with its labels.
func (m *markup) axes(x, y *axis, xLabel func(float64) string, xTitle, yTitle string) {
	for _, v := range y.ticks() {
		m.empty("line", "class", "grid", "x1", px(left), "x2", px(width-right), "y1", px(y.at(v)), "y2", px(y.at(v)))
		m.leaf("text", label(v), "x", px(left-6), "y", px(y.at(v)+4), "text-anchor", "end")
	}
	for _, v := range x.ticks() {
		m.empty("line", "class", "grid", "x1", px(x.at(v)), "x2", px(x.at(v)), "y1", px(y.from), "y2", px(y.from+4))
		m.leaf("text", xLabel(v), "x", px(x.at(v)), "y", px(y.from+26), "text-anchor", "middle")
	}
	m.leaf("text", xTitle, "x", px(width-right), "y", px(height-2), "text-anchor", "end")
	m.leaf("text", yTitle, "x", "2.0", "y", px(top-14))
}

// id is that of the picture of a run.
func id(i int) string { return "run-" + strconv.Itoa(i) }
