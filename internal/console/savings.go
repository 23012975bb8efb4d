// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/mix/savings"
)

// mostNotes bounds what the overview has of where prices are from.
const mostNotes = 4

// savings is what the workloads of the reading save, by what a row is of. It is computed once for a reading.
func (s *state) savings(by savings.By) (*savings.Report, error) {
	book := s.priced().Book
	if book == nil {
		return nil, errors.New(s.pricesUnknown())
	}
	return once(s, by, func() *savings.Report {
		nodes := make([]*corev1.Node, 0, len(s.Nodes))
		for i := range s.Nodes {
			nodes = append(nodes, s.Nodes[i].Node)
		}
		return s.Overview.Savings(nodes, book, by, s.at)
	}), nil
}

// builtIn is a reading of the prices that are built in, whose tables are read once.
func builtIn() prices.Reading {
	book, err := prices.New(prices.Options{})
	if err != nil {
		return prices.Reading{Began: true, Problem: err.Error()}
	}
	return prices.Reading{Began: true, Book: book}
}

// priced is the last reading of prices.
func (s *state) priced() *prices.Reading {
	if s.prices == nil {
		return new(builtIn())
	}
	return s.prices
}

// pricesUnknown is why there are no prices, "" where there are.
func (s *state) pricesUnknown() string {
	switch r := s.priced(); {
	case r.Book != nil:
		return ""
	case r.Problem == "":
		return "the prices of nodes were not read yet"
	default:
		return "the prices of nodes cannot be read: " + r.Problem
	}
}

// priceNotes is what of the reading of prices is not as it should be, a sentence each.
func (s *state) priceNotes() (notes []string) {
	p := s.priced()
	if p.Problem != "" {
		notes = append(notes, fmt.Sprintf("The prices of nodes are %s old, because they cannot be read: %s.", display.Age(s.at, p.At), p.Problem))
	}
	return append(notes, p.Book.Notes()...)
}

// costUnknown is why costs are unknown, "" if they are not.
func (s *state) costUnknown() string {
	var missing []string
	for _, resource := range overview.SavingsRequire {
		if slices.Contains(s.Unread, resource) {
			missing = append(missing, resource)
		}
	}
	if why := s.pricesUnknown(); why != "" && len(missing) == 0 {
		return "Costs are unknown: " + inert(why) + "."
	}
	if len(missing) == 0 {
		return ""
	}
	return "Costs are unknown: could not list " + strings.Join(missing, ", ") + "."
}

// costView is what the pods of mixes cost, or why that is unknown.
type costView struct {
	Problem                                                 string
	Hour, Month, Saved, Percent, OnDemand, Available, Floor string
	Priced, Pods                                            int
	Estimate                                                bool
	// Bar is the share of each capacity type.
	Bar   *bar
	Notes []string
	// More counts the notes that are not shown. Whole is set on the page of savings, which has all.
	More  int
	Whole bool
}

// costKey is the key of the part with the costs in what is made once for a reading. It is true for the page of savings.
type costKey bool

// costPart is the part of a page with the costs of all workloads.
func costPart(s *state, whole bool) *part {
	return once(s, costKey(whole), func() *part { return &part{id: "cost", before: render("cost", costOf(s, whole))} })
}

func costOf(s *state, whole bool) costView {
	v := costView{Problem: s.costUnknown(), Whole: whole}
	if v.Problem != "" {
		return v
	}
	r, err := s.savings(savings.ByWorkload)
	if err != nil {
		v.Problem = "Costs are unknown: " + inert(err.Error()) + "."
		return v
	}
	t := &r.Total
	switch {
	case t.Pods == 0:
		v.Problem = "No pod of a mix runs, so nothing has a cost."
		return v
	case t.Priced == 0:
		v.Problem = fmt.Sprintf("Costs are unknown: none of %s has a price, because %s.", display.Count(t.Pods, "pod"), inert(r.Unpriced[0].Reason))
		return v
	}
	v.Hour, v.Month, v.Saved = savings.Hourly(t.Cost), savings.Monthly(t.Cost), savings.Monthly(t.Saved)
	v.Available, v.Floor, v.Priced, v.Pods = savings.Monthly(t.Available), savings.Monthly(t.Floor), t.Priced, t.Pods
	v.Estimate = r.Estimate()
	if t.AllOnDemand > 0 {
		v.Percent, v.OnDemand = savings.Percent(t.Saved, t.AllOnDemand), savings.Monthly(t.AllOnDemand)
	}
	if t.Cost > 0 {
		v.Bar = costBar(t)
	}
	v.Notes = allInert(append(s.priceNotes(), r.Notes(s.at)...))
	if n := len(v.Notes) - mostNotes; n > 0 && !whole {
		v.Notes, v.More = v.Notes[:mostNotes], n
	}
	return v
}

// costBar is the share of each capacity type in the cost.
func costBar(t *savings.Figures) *bar {
	spot := int(math.Round(barWidth * t.CostOnSpot / t.Cost))
	b := &bar{Words: fmt.Sprintf("spot %s (%s), on-demand %s (%s)", savings.Monthly(t.CostOnSpot), savings.Percent(t.CostOnSpot, t.Cost),
		savings.Monthly(t.Cost-t.CostOnSpot), savings.Percent(t.Cost-t.CostOnSpot, t.Cost))}
	b.fill(0, barHeight, barWidth, []portion{{"spot", spot}, {"on-demand", barWidth - spot}})
	return b
}

// savedRows are the rows of the savings by workload, without their figures as keys.
type savedRows map[savings.Row]*savings.Row

// savedKey is the key of savedRows in what is made once for a reading.
type savedKey struct{}

// savedByWorkload is what each workload saves, nil where nothing has a price.
func (s *state) savedByWorkload() savedRows {
	return once(s, savedKey{}, func() savedRows {
		r, err := s.savings(savings.ByWorkload)
		if err != nil || s.costUnknown() != "" || r.Total.Priced == 0 {
			return nil
		}
		all := savedRows{}
		for i := range r.Rows {
			key := r.Rows[i]
			key.Figures = savings.Figures{}
			all[key] = &r.Rows[i]
		}
		return all
	})
}

// savedOf is what a workload saves as a cell, nil where nothing has a price.
func (s *state) savedOf(w *overview.Workload) *value {
	all := s.savedByWorkload()
	if all == nil {
		return nil
	}
	row := all[w.SavingsRow()]
	if row == nil || row.Pods == 0 {
		return &value{}
	}
	v := amountValue(&row.Figures, row.Saved)
	if row.Priced > 0 && row.Priced < row.Pods {
		v.Note = fmt.Sprintf("of %d/%d pods", row.Priced, row.Pods)
	}
	return &v
}

// amountValue is an amount an hour as dollars a month, unknown where no pod has a price.
func amountValue(f *savings.Figures, amount float64) value {
	if f.Priced == 0 {
		return value{Text: "?", order: math.MinInt64}
	}
	return value{Text: savings.Monthly(amount), order: int64(math.Round(amount * 1e6))}
}

// byParameter is what a row of the page of savings is of.
const byParameter = "by"

// byOf is what a row is of, workloads where the URL has nothing that it can be of.
func byOf(q url.Values) savings.By {
	if by := savings.By(q.Get(byParameter)); slices.Contains(savings.All, by) {
		return by
	}
	return savings.ByWorkload
}

// savingsPage is the page of what workloads, mixes, namespaces or units save.
func savingsPage(_ []string, q url.Values, s *state) (*page, error) {
	by := byOf(q)
	choice := struct{ By, Files []link }{By: byLinks(by)}
	if s.costUnknown() == "" {
		choice.Files = fileLinks(by)
	}
	parts := append(status(s), costPart(s, true), &part{id: "by", before: render("savings-by", choice)})
	l := savingsListing(by)
	l.unknown = s.costUnknown() != ""
	if why := s.pricesUnknown(); why != "" {
		l.why = inert(why)
	}
	var rows []*savings.Row
	if !l.unknown {
		r, err := s.savings(by)
		if err != nil {
			return nil, err
		}
		for i := range r.Rows {
			rows = append(rows, &r.Rows[i])
		}
	}
	return &page{title: "Savings", parts: append(parts, l.parts("/savings", q, rows)...)}, nil
}

// byLinks are the choices of what a row is of.
func byLinks(now savings.By) (links []link) {
	for _, by := range savings.All {
		l := link{Name: "By " + string(by), URL: "/savings?" + url.Values{byParameter: {string(by)}}.Encode()}
		if by == now {
			l.Current = "page"
		}
		links = append(links, l)
	}
	return links
}

func savingsListing(by savings.By) listing[*savings.Row] {
	type row = *savings.Row
	amount := func(id, label string, of func(*savings.Figures) float64) column[row] {
		return column[row]{id, label, true, func(r row) value { return amountValue(&r.Figures, of(&r.Figures)) }}
	}
	columns := slices.Concat(namesOf(by), []column[row]{
		{"replicas", "Replicas", true, func(r row) value { return numberValue(r.Replicas) }},
		{"priced", "Pods with a price", true, func(r row) value {
			return value{Text: fmt.Sprintf("%d/%d", r.Priced, r.Pods), order: int64(r.Priced)}
		}},
		amount("cost", "Cost", func(f *savings.Figures) float64 { return f.Cost }),
		amount("on-demand", "On-demand", func(f *savings.Figures) float64 { return f.AllOnDemand }),
		amount("saved", "Saved", func(f *savings.Figures) float64 { return f.Saved }),
		amount("available", "Available", func(f *savings.Figures) float64 { return f.Available }),
		amount("floor", "Floor", func(f *savings.Figures) float64 { return f.Floor }),
	})
	return listing[row]{
		id: "savings", label: "Savings", noun: string(by), columns: columns, keeps: []string{byParameter},
		empty: `<h2>No workload</h2><p>Amounts are dollars a month of the pods that a mix governs. Create a CapacityMix to see them.</p>`,
		row: func(r row) string {
			return strings.Join([]string{r.Namespace, r.Kind, r.Name, r.Revision, r.Role, r.Mix, r.Unit}, "/")
		},
		why: "nodes, pods or mixes could not be listed",
	}
}

// namesOf are the columns with the names of what a row is of.
func namesOf(by savings.By) []column[*savings.Row] {
	type row = *savings.Row
	mix := column[row]{"mix", "Mix", false, mixOfRow}
	switch by {
	case savings.ByNamespace:
		return []column[row]{{"namespace", "Namespace", false, func(r row) value { return textValue(r.Namespace) }}}
	case savings.ByMix:
		mix.of = func(r row) value {
			v := mixOfRow(r)
			v.Note = inert(r.Namespace)
			return v
		}
		return []column[row]{mix}
	}
	workload := column[row]{"name", "Workload", false, func(r row) value {
		w := overview.Workload{Namespace: r.Namespace, Kind: r.Kind, Name: r.Name, Revision: r.Revision, Bare: r.Bare}
		w.Role = r.Role
		v := linkValue(overview.KindName(r.Kind, r.Name, r.Role, r.Bare), workloadURL(&w))
		v.Note = inert(strings.TrimSpace(r.Namespace + " " + r.Revision))
		return v
	}}
	if by == savings.ByUnit {
		return []column[row]{workload, {"unit", "Unit", false, func(r row) value { return textValue(r.Unit) }}}
	}
	return []column[row]{workload, mix}
}

// mixOfRow is where the mix of a row comes from, with the page of a CapacityMix.
func mixOfRow(r *savings.Row) value {
	if name, is := strings.CutPrefix(r.Mix, governing.SourceCapacityMix); is {
		return linkValue(name, objectURL(mixList.id, r.Namespace, name))
	}
	return textValue(r.Mix)
}
