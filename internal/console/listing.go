// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

// value is what a cell of a listing shows. All texts in it are inert.
type value struct {
	Text, URL string
	// Note follows the text, less prominent.
	Note string
	// Class is that of a badge or, with Plain, of the text.
	Class string
	Plain bool
	// at is a time that is shown as its age at now, with the time itself in its title.
	at  metav1.Time
	now time.Time
	// draw draws what is shown in place of the text. It is called for the rows that a page shows, not for all that it filters and sorts.
	draw func() template.HTML
	// order is the time as a number, or a number that the text is not in the order of.
	order int64
}

// words are the texts of a value, for the filter.
func (v *value) words() string { return v.Text + " " + v.Note }

// Time is the age of a time for the template, "" for another value.
func (v value) Time() template.HTML {
	if v.at.IsZero() {
		return ""
	}
	return timeTag(v.now, v.at)
}

// HTML is what is drawn, "" for a text.
func (v value) HTML() template.HTML {
	if v.draw == nil {
		return ""
	}
	return v.draw()
}

// empty reports whether there is nothing to show.
func (v value) empty() bool { return v.Text == "" && v.draw == nil }

// textValue is a text of others.
func textValue(text string) value { return value{Text: inert(text)} }

// nameParameter is the parameter of a page that is about a name that no path can have. The links of a listing keep it.
const nameParameter = "name"

// maxURL bounds a link. Names of objects are shorter; other texts lead nowhere.
const maxURL = 2048

// linkValue is a text of others that leads to a page.
func linkValue(text, url string) value {
	if len(url) > maxURL {
		url = ""
	}
	return value{Text: inert(text), URL: url}
}

// numberValue is a number.
func numberValue(n int) value { return value{Text: fmt.Sprint(n), order: int64(n)} }

// maybeValue is a number that can be unknown. Unknown is the least.
func maybeValue(n overview.Maybe[int]) value {
	known, is := n.Get()
	if !is {
		known = -1
	}
	return value{Text: n.String(), order: int64(known)}
}

// badgeValue is a word with a class of the style.
func badgeValue(word, class string) value { return value{Text: inert(word), Class: class} }

// timeValue is a time as its age at now.
func timeValue(now time.Time, t metav1.Time) value {
	if t.IsZero() {
		return value{}
	}
	return value{Text: agoOf(now, t), at: t, now: now, order: t.Unix()}
}

func agoOf(now time.Time, t metav1.Time) string {
	age := now.Sub(t.Time).Abs()
	if age >= 2*time.Minute {
		age = age.Truncate(time.Minute) // a page must not change with each reading
	}
	text := display.Age(now, now.Add(-age))
	if t.After(now) {
		return "in " + text
	}
	return text + " ago"
}

// timeTag is a time as its age, with the time itself in its title.
func timeTag(now time.Time, t metav1.Time) template.HTML {
	return render("time", struct {
		At, Title, Age string
	}{t.UTC().Format(time.RFC3339), timeText(t), agoOf(now, t)})
}

// column is a column of a listing. Rows are in the natural order of its texts or, with Number, in that of its numbers.
type column[T any] struct {
	// ID names the column in URLs.
	ID, Label string
	Number    bool
	of        func(T) value
}

// listing is a table that is filtered by all of its texts, and sorted by each column.
type listing[T any] struct {
	// id is that of the element, label its name for screen readers, and noun is one row in a sentence.
	id, label, noun string
	columns         []column[T]
	// row identifies a row, "" for one that stays where it is.
	row func(T) string
	// empty is shown without rows and without a filter: what this is, and how to begin.
	empty template.HTML
	// create is the URL of the form of a new one, "" if there is none.
	create string
	// unknown is set if the list could not be read, or not all of it, and why is the reason if it is another one.
	unknown bool
	why     string
	// prefix is before the names of its parameters, of which a page with two listings has two, and keeps are those of the other one.
	prefix string
	keeps  []string
}

// heading is the head of a column.
type heading struct {
	Label, URL, Sort string
	Number           bool
}

// lineView is what the template of a row gets.
type lineView struct {
	Row    string
	Values []labelled
}

// labelled is a value with the label of its column, which narrow screens show beside it.
type labelled struct {
	value
	Label  string
	Number bool
	First  bool
}

// listingView is what the templates around the rows get.
type listingView struct {
	ID, Label, Prefix, Action, Filter, Sort, Create string
	// Keep are the other parameters of the page, and Clear is the page without a filter.
	Keep     []fact
	Clear    string
	Count    string
	Headings []heading
	Paging   paging
	Empty    template.HTML
	Shown    int
	// Bare is set without a table: there is nothing to show, and no filter.
	Bare bool
}

// parts are the parts of a page at a URL: the filter, which is not replaced while it is open, and the table.
func (l listing[T]) parts(path string, q url.Values, all []T) []*part {
	text := display.Inert(q.Get(l.prefix+"filter"), maxFilter)
	lines := l.matching(all, text)
	by, down := l.sorted(lines, q.Get(l.prefix+"sort"))
	v := l.view(path, q, text, by, down, len(all), len(lines))
	rows := &part{id: l.id, before: render("listing-before", v), after: render("listing-after", v)}
	for _, o := range rowsOf(v.Paging, lines) {
		rows.rows = append(rows.rows, l.line(o))
	}
	return []*part{{id: l.id + "-filter", before: render("listing-filter", v), fixed: true}, rows}
}

// matching are the rows that have all words of a text. Without words, no cell of a row is made: a page shows few of many rows.
func (l listing[T]) matching(all []T, text string) []T {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 {
		return slices.Clone(all)
	}
	var found []T
	for _, o := range all {
		var texts strings.Builder
		for i := range l.columns {
			v := l.columns[i].of(o)
			texts.WriteString(strings.ToLower(v.words()) + " ")
		}
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(texts.String(), word) }) {
			found = append(found, o)
		}
	}
	return found
}

// sortKey is a row with what it is sorted by: the number and the words of its cell in the column.
type sortKey[T any] struct {
	of    T
	order int64
	words string
}

// sorted sorts rows by the column of the parameter sort, in the other direction with a "-" before it, and returns which it was. Without a
// column, rows stay in the order that they have.
func (l listing[T]) sorted(rows []T, parameter string) (by int, down bool) {
	name, down := strings.CutPrefix(parameter, "-")
	by = slices.IndexFunc(l.columns, func(c column[T]) bool { return c.ID == name })
	if by < 0 {
		return by, false
	}
	keys := make([]sortKey[T], len(rows))
	for i, o := range rows {
		v := l.columns[by].of(o)
		keys[i] = sortKey[T]{o, v.order, v.words()}
	}
	slices.SortStableFunc(keys, func(a, b sortKey[T]) int {
		if down {
			a, b = b, a
		}
		if l.columns[by].Number && a.order != b.order {
			return compare(a.order, b.order)
		}
		return display.Natural(a.words, b.words)
	})
	for i := range keys {
		rows[i] = keys[i].of
	}
	return by, down
}

func compare(a, b int64) int {
	if a < b {
		return -1
	}
	return 1
}

// kept are the parameters of a page that are not those of the listing.
func (l listing[T]) kept(q url.Values) (all []fact) {
	for _, name := range append([]string{nameParameter}, l.keeps...) {
		if text := q.Get(name); text != "" && text == inert(text) {
			all = append(all, fact{name, text})
		}
	}
	return all
}

func (l listing[T]) view(path string, q url.Values, text string, by int, down bool, all, shown int) listingView {
	v := listingView{ID: l.id, Label: l.label, Prefix: l.prefix, Action: path, Filter: text, Create: l.create, Empty: l.empty, Shown: shown}
	v.Keep = l.kept(q)
	kept := url.Values{}
	for _, parameter := range v.Keep {
		kept.Set(parameter.Name, parameter.Value)
	}
	at := func(parameters url.Values) string {
		return (&url.URL{Path: path, RawQuery: parameters.Encode()}).String()
	}
	v.Clear = at(kept)
	if text != "" {
		kept.Set(l.prefix+"filter", text)
	}
	for i, c := range l.columns {
		h := heading{Label: c.Label, Number: c.Number}
		sorted := maps.Clone(kept)
		sorted.Set(l.prefix+"sort", c.ID)
		switch {
		case i == by && down:
			h.Sort = "descending"
		case i == by:
			h.Sort = "ascending"
			sorted.Set(l.prefix+"sort", "-"+c.ID)
		}
		h.URL = at(sorted)
		v.Headings = append(v.Headings, h)
	}
	if by >= 0 {
		v.Sort = map[bool]string{true: "-"}[down] + l.columns[by].ID
		kept.Set(l.prefix+"sort", v.Sort)
	}
	v.Paging = pagingBy(l.prefix+"page", "Pages of "+strings.ToLower(l.label), path, kept, q.Get(l.prefix+"page"), shown)
	v.Count = l.count(text, all, shown)
	if l.unknown {
		v.Empty = "" // there may be some
	}
	v.Bare = v.Empty != "" && shown == 0 && text == ""
	return v
}

// count is the number of rows in words.
func (l listing[T]) count(text string, all, shown int) string {
	switch {
	case text != "" && l.unknown:
		return fmt.Sprintf("%d of those that could be listed", shown)
	case text != "":
		return fmt.Sprintf("%d of %s", shown, display.Count(all, l.noun))
	case l.unknown && all == 0:
		return "The number of " + display.Plural(l.noun) + " is unknown: " + cmp.Or(l.why, "they could not be listed") + "."
	case l.unknown:
		return display.Count(all, l.noun) + " and those that could not be listed"
	}
	return display.Count(all, l.noun)
}

func (l listing[T]) line(o T) row {
	v := lineView{Row: l.id + "-" + fmt.Sprintf("%x", hash(l.row(o)))}
	for i, c := range l.columns {
		v.Values = append(v.Values, labelled{c.of(o), c.Label, c.Number, i == 0})
	}
	return newRow(v.Row, render("listing-row", v))
}
