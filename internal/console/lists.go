// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

// listOf is a list of objects of a kind, with a page for each object. The templates have its ID: ID-before, ID-row and ID-after.
type listOf[T client.Object] struct {
	id, title, kind string
	// noun is one object of the kind in a sentence, and resource what a Reading calls the list.
	noun, resource string
	// of are the objects of a reading, and view is what the templates of an object get.
	of   func(*overview.Reading) []T
	view func(T) any
	// columns are set for a list whose table is a listing, with empty for a namespace that has none, and detailed for pages of objects.
	columns  func(*state) []column[T]
	empty    template.HTML
	detailed func(o T, path string, q url.Values, s *state) *details
}

// page is the page of all objects, by namespace and name.
func (l listOf[T]) page(_ []string, q url.Values, s *state) (*page, error) {
	sorted := slices.SortedFunc(slices.Values(l.of(s.Reading)), func(a, b T) int {
		return cmp.Or(display.Natural(a.GetNamespace(), b.GetNamespace()), display.Natural(a.GetName(), b.GetName()))
	})
	if l.columns != nil {
		return l.listed(q, s, sorted), nil
	}
	v := struct {
		Count    string
		Writable bool
		Paging   paging
	}{l.count(len(sorted), s.Reading), s.writable, pagingOf("Pages of "+strings.ToLower(l.title), "/"+l.id, url.Values{}, q.Get("page"), len(sorted))}
	list := &part{id: l.id, before: render(l.id+"-before", v), after: render(l.id+"-after", v)}
	for _, o := range rowsOf(v.Paging, sorted) {
		shown := shown{Row: l.rowID(o), URL: l.url(o), Of: l.view(o)}
		list.rows = append(list.rows, newRow(shown.Row, render(l.id+"-row", shown)))
	}
	return &page{title: l.title, parts: append(status(s), list)}, nil
}

// listed is the page of a list whose table is a listing.
func (l listOf[T]) listed(q url.Values, s *state, sorted []T) *page {
	table := listing[T]{
		id: l.id, label: l.title, noun: l.noun, columns: l.columns(s), empty: l.empty, unknown: slices.Contains(s.Unread, l.resource),
		row: func(o T) string { return o.GetNamespace() + "/" + o.GetName() },
	}
	if s.writable {
		table.create = "/" + l.id + "/new"
	}
	return &page{title: l.title, parts: append(status(s), table.parts("/"+l.id, q, sorted)...)}
}

// count is the number of objects in words. Without all lists, the number is unknown.
func (l listOf[T]) count(n int, r *overview.Reading) string {
	switch known := !slices.Contains(r.Unread, l.resource); {
	case known:
		return display.Count(n, l.noun)
	case n == 0:
		return "The number of " + display.Plural(l.noun) + " is unknown: they could not be listed."
	}
	return display.Count(n, l.noun) + " and those that could not be listed"
}

// shown is an object as the templates get it.
type shown struct {
	Row, URL          string
	Writable, Reports bool
	Of                any
}

func (l listOf[T]) rowID(o T) string {
	return l.id + "-" + fmt.Sprintf("%x", hash(o.GetNamespace(), o.GetName()))
}

func (l listOf[T]) url(o T) string { return objectURL(l.id, o.GetNamespace(), o.GetName()) }

func objectURL(id, namespace, name string) string {
	return "/" + id + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// find is the object at a path, whose first parts are its namespace and name.
func (l listOf[T]) find(path []string, s *state) (found T, err error) {
	for _, o := range l.of(s.Reading) {
		if o.GetNamespace() == path[0] && o.GetName() == path[1] {
			return o, nil
		}
	}
	return found, fmt.Errorf("there is no %s %s, or you may not read it", l.kind, inert(path[0]+"/"+path[1]))
}

// detail is the page of an object. The template has the ID of the list without its last letter.
func (l listOf[T]) detail(path []string, q url.Values, s *state) (*page, error) {
	o, err := l.find(path, s)
	if err != nil {
		return nil, err
	}
	if l.detailed != nil {
		d := l.detailed(o, l.url(o), q, s)
		v := struct {
			shown
			Details *details
			Links   []link
		}{shown{URL: l.url(o), Writable: s.writable}, d, d.Links}
		parts := append(withApplied(o, l.id, q, s), &part{id: "object", before: render("object", v)})
		return &page{title: inert(o.GetNamespace() + "/" + o.GetName()), parts: append(parts, d.parts...)}, nil
	}
	p := l.detailOf(o, s, "", "")
	p.parts = slices.Concat(withApplied(o, l.id, q, s), p.parts[len(status(s)):])
	return p, nil
}

// withApplied are the parts above an object: the status and, after a change by its form, what that did.
func withApplied(o client.Object, id string, q url.Values, s *state) []*part {
	parts := status(s)
	if k := editedKinds[id]; k != nil {
		if applied := appliedTo(k, o, q, s); applied != nil {
			parts = append(parts, applied)
		}
	}
	return parts
}

// detailOf is the page of an object with what a change did, or why it failed.
func (l listOf[T]) detailOf(o T, s *state, done, problem string) *page {
	id := strings.TrimSuffix(l.id, "s")
	v := shown{Row: l.rowID(o), URL: l.url(o), Writable: s.writable, Reports: s.reports, Of: l.view(o)}
	parts := status(s)
	if done != "" || problem != "" {
		// It stays while the object changes.
		result := struct{ Done, Problem string }{done, inert(problem)}
		parts = append(parts, &part{id: "result", before: render("result", result), fixed: true})
	}
	return &page{title: inert(o.GetNamespace() + "/" + o.GetName()), parts: append(parts, &part{id: id, before: render(id, v)})}
}

// specVersion identifies the spec of an object. Its status, which controllers write all the time, is not part of it.
func specVersion(o client.Object) string { return fmt.Sprintf("%s/%d", o.GetUID(), o.GetGeneration()) }

// fact is a name with a value.
type fact struct{ Name, Value string }

// conditionsOf are conditions as "True, Reason: message".
func conditionsOf(all []metav1.Condition) (facts []fact) {
	for i := range all {
		c := &all[i]
		text := string(c.Status) + ", " + c.Reason
		if c.Message != "" {
			text += ": " + c.Message
		}
		facts = append(facts, fact{inert(c.Type), inert(text)})
	}
	return facts
}

func timeText(t metav1.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// badge is a word that is good, bad, or neither.
type badge struct{ Class, Word string }

func (b badge) HTML() template.HTML { return render("badge", b) }
