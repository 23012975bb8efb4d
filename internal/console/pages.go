// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

// errNoPage is what a path leads to that is no page's.
var errNoPage = errors.New("there is no such page")

const (
	// ribbonSlots is the number of slots in a row of the overview, and maxSlots that on the page of a workload.
	ribbonSlots, maxSlots = 100, 2000
	// maxFilter bounds the text of the filter.
	maxFilter = 256
)

// pageOf returns the page at a URL, which is a function of the state.
func pageOf(at *url.URL, s *state) (*page, error) {
	if s.Reading == nil {
		// The page has none of the parts that the stream sends after the first reading: the browser loads it again then.
		return &page{title: "Overview", parts: append(status(s), &part{id: "unread", before: render("unread", nil), fixed: true})}, nil
	}
	path, err := pathOfURL(at)
	if err != nil {
		return nil, err
	}
	found := routes[route{path[0], len(path)}]
	if found == nil {
		return nil, errNoPage
	}
	return found(path[1:], at.Query(), s)
}

// route is the first part of a path, and the number of parts.
type route struct {
	first string
	parts int
}

// routes are the pages by their paths, of which they get the other parts.
var routes = map[route]func([]string, url.Values, *state) (*page, error){
	{"", 1}:             overviewPage,
	{"timeline", 1}:     timelinePage,
	{"savings", 1}:      savingsPage,
	{"nodes", 1}:        nodesPage,
	{"nodes", 2}:        nodePage,
	{"domain", 1}:       domainPage,
	{"workloads", 4}:    workloadPage,
	{"mixes", 1}:        mixList.page,
	{"mixes", 3}:        mixList.detail,
	{"mixes", 2}:        newObjectPage(mixList.id),
	{"mixes", 4}:        mixChangePage,
	{"policies", 2}:     newObjectPage(policyList.id),
	{"policies", 4}:     objectChangePage(policyList),
	{"reservations", 2}: newObjectPage(reservationList.id),
	{"reservations", 4}: objectChangePage(reservationList),
	{"policies", 1}:     policyList.page,
	{"policies", 3}:     policyList.detail,
	{"reservations", 1}: reservationList.page,
	{"reservations", 3}: reservationList.detail,
	{"limits", 1}:       limitList.page,
	{"limits", 2}:       newObjectPage(limitList.id),
	{"limits", 3}:       limitList.detail,
	{"limits", 4}:       objectChangePage(limitList),
	{"records", 1}:      recordList.page,
	{"records", 3}:      recordList.detail,
	{"environments", 1}: environmentList.page,
	{"environments", 3}: environmentPage,
	{"pods", 3}:         reportPage("pods"),
	{"pods", 4}:         reportPage("pods"),
	{"workloads", 5}:    reportPage("workloads"),
	{"records", 4}:      reportPage("records"),
	{"environments", 4}: reportPage("environments"),
}

// pathOfURL are the parts of a path, one at least.
func pathOfURL(at *url.URL) (parts []string, err error) {
	for part := range strings.SplitSeq(strings.Trim(at.EscapedPath(), "/"), "/") {
		part, err := url.PathUnescape(part)
		if err != nil {
			return nil, errNoPage
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// failed is the page of an error. An open page whose object is gone has a status, too, and shows the error there.
func failed(err error) *page {
	return &page{title: "Not found", parts: []*part{{id: "status", before: render("error", err.Error())}}}
}

// status are the parts that report what is missing, and how old the data is.
func status(s *state) []*part {
	v := struct {
		Failure  string
		Problems []string
	}{Failure: inert(s.failure)}
	if s.Reading != nil {
		for _, problem := range s.Problems {
			v.Problems = append(v.Problems, inert(problem))
		}
	}
	return []*part{{id: "status", before: render("status", v)}, {id: ageID, before: render("age", ageOf(s))}}
}

// readAge is when the data of a page was read, and how many seconds before the page was made.
type readAge struct {
	time.Time
	Seconds int
}

func ageOf(s *state) readAge {
	if s.now == nil || s.at.IsZero() {
		return readAge{Time: s.at}
	}
	return readAge{s.at, int(s.now().Sub(s.at).Seconds())}
}

// overviewPage is the page of all workloads.
func overviewPage(_ []string, q url.Values, s *state) (*page, error) {
	text := display.Inert(q.Get("filter"), maxFilter) // as the texts that it is compared with
	filter := url.Values{}
	if text != "" {
		filter.Set("filter", text)
	}
	words := strings.Fields(strings.ToLower(text))
	var shown []*overview.Workload
	for i := range s.Overview.Workloads {
		if w := &s.Overview.Workloads[i]; s.matches(w, words) {
			shown = append(shown, w)
		}
	}
	v := struct {
		*overview.Overview
		Filter   string
		Shown    int
		Paging   paging
		Problems []string
		Reasons  []reasonCount
		Saved    bool
	}{
		s.Overview, text, len(shown), pagingOf("Pages of workloads", "/", filter, q.Get("page"), len(shown)), s.Problems,
		reasonsOf(s.Overview), s.savedByWorkload() != nil,
	}
	list := &part{id: "workloads", before: render("workloads-before", v), after: render("workloads-after", v)}
	for _, w := range rowsOf(v.Paging, shown) {
		list.rows = append(list.rows, s.row(w))
	}
	parts := append(status(s), &part{id: "totals", before: render("totals", v)})
	if text == "" && v.Paging.Page == 1 { // a search is for workloads
		parts = append(parts, pictures(s)...)
	}
	return &page{title: "Overview", parts: append(parts, &part{id: "filter", before: render("filter", v), fixed: true}, list)}, nil
}

// pictures are the parts of the overview that show the cluster as a whole.
func pictures(s *state) []*part {
	type card struct {
		Title, Hint string
		Bars        []bar
		More        int
		Unknown     bool
	}
	v := struct {
		Concerns []concern
		More     int
		Known    bool
		Cards    []card
		Timeline bool
	}{Known: !s.Overview.Totals.Satisfied.Unknown(), Timeline: s.reports}
	v.Concerns, v.More = concernsOf(s.Overview)
	workloads := card{Title: "Largest workloads", Hint: "The upper band is what the mix requires."}
	workloads.Bars, workloads.More = workloadBars(s.Overview)
	zones := card{Title: "By zone", Unknown: s.Overview.Nodes == nil}
	zones.Bars, zones.More = placeBars(s.Overview.Nodes, "no zone")
	v.Cards = []card{workloads, zones}
	if slices.ContainsFunc(s.Overview.Pools, func(g overview.NodeGroup) bool { return g.Zone != "" }) {
		pools := card{Title: "By node pool"}
		pools.Bars, pools.More = placeBars(s.Overview.Pools, "no node pool")
		v.Cards = append(v.Cards, pools)
	}
	return []*part{
		{id: "attention", before: render("attention", v)},
		costPart(s, false),
		{id: "day", before: render("day-card", v), fixed: true},
		{id: "bars", before: render("bars", v)},
	}
}

// reasonCount is the number of workloads that do not satisfy their mix for a reason, or of which it is unknown.
type reasonCount struct {
	Reason, URL string
	Workloads   int
}

// reasonsOf counts the workloads that do not satisfy their mix, the most frequent reason first.
func reasonsOf(o *overview.Overview) (all []reasonCount) {
	counts := map[string]int{}
	for i := range o.Workloads {
		if w := &o.Workloads[i]; !w.Satisfied.Is(true) {
			counts[cmp.Or(w.Reason, overview.ReasonUnknown)]++
		}
	}
	for reason, n := range counts {
		all = append(all, reasonCount{reason, "/?" + url.Values{"filter": {reason}}.Encode(), n})
	}
	slices.SortFunc(all, func(a, b reasonCount) int {
		return cmp.Or(cmp.Compare(b.Workloads, a.Workloads), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// matches reports whether all words of a text are in what the row of a workload shows, or in the source of its mix.
func (s *state) matches(w *overview.Workload, words []string) bool {
	return len(words) == 0 || hasWords(s.row(w).text+" "+w.Source, words)
}

// workloadRow is a workload in the list, with what it saves unless that is nil.
func workloadRow(w *overview.Workload, saved *value) row {
	id := "w" + strconv.FormatUint(hash(w.Namespace, w.Kind, w.Name, w.Revision, w.ID), 36)
	v := struct {
		*overview.Workload
		RowID, URL string
		Ribbon     ribbon
		Saved      *value
	}{w, id, workloadURL(w), ribbonOf(w, ribbonSlots, true), saved}
	return newRow(id, render("workload-row", v))
}

func workloadPath(w *overview.Workload) string {
	parts := []string{"/workloads"}
	for _, part := range pathOf(w) {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

// nameOf is the name of a workload, for the pods of a mix that have no controller a phrase.
func nameOf(w *overview.Workload) string { return cmp.Or(w.Name, "pods without a controller") }

func workloadURL(w *overview.Workload) string {
	at, query := workloadPath(w), url.Values{}
	if w.Revision != "" {
		query.Set("revision", w.Revision)
	}
	if w.Role != "" {
		query.Set("role", w.Role)
	}
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	return at
}

// pathOf is where the page of a workload is. Pods without a controller have neither kind nor name.
func pathOf(w *overview.Workload) []string {
	return []string{w.Namespace, cmp.Or(w.Kind, "-"), cmp.Or(w.Name, "-")}
}

// workloadPage is the page of a workload.
func workloadPage(path []string, q url.Values, s *state) (*page, error) {
	if found := workloadAt(path, q, s); found != nil {
		return slotsPage(found, s), nil
	}
	return nil, fmt.Errorf("there is no %s with a mix, or you may not read it", inert(strings.Join(path, " ")))
}

// workloadAt is the workload at a path, nil if there is none.
func workloadAt(path []string, q url.Values, s *state) (found *overview.Workload) {
	revision, role := q.Get("revision"), q.Get("role")
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		if !slices.Equal(pathOf(w), path) || revision != "" && w.Revision != revision || role != "" && w.Role != role {
			continue
		}
		if found == nil || found.Role != role && w.Role == role { // without a role: the pods of none, if there are some
			found = w
		}
	}
	return found
}

func slotsPage(w *overview.Workload, s *state) *page {
	v := struct {
		*overview.Workload
		Ribbon     ribbon
		Plan       string
		History    string
		Reports    bool
		Conditions []fact
	}{Workload: w, Ribbon: ribbonOf(w, maxSlots, false), Reports: s.reports}
	if s.reports && w.Name != "" {
		v.History = workloadPath(w) + "/history"
	}
	if m := s.mixOf(w); m != nil {
		v.Conditions = conditionsOf(m.Status.Conditions)
		if s.plans {
			v.Plan = planURL(m)
		}
	}
	for i := range v.Ribbon.Cells {
		v.Ribbon.Cells[i].URL = s.podURL(w.Namespace, v.Ribbon.Cells[i].Pod)
	}
	slots := &part{id: "slots", before: render("slots-before", v), after: render("slots-after", v)}
	for i := range w.Slots[:min(len(w.Slots), maxSlots)] {
		slot := slotOf(&w.Slots[i])
		slot.link(w, s)
		slots.rows = append(slots.rows, newRow(slot.ID, render("slot-row", slot)))
	}
	parts := append(status(s), &part{id: "workload", before: render("workload", v)})
	if s.reports && w.Name != "" {
		parts = append(parts, movesPart(w, s))
	}
	return &page{title: w.Namespace + "/" + nameOf(w), parts: append(parts, slots)}
}

// maxLinks is how many pods of a unit its row has: a unit may have hundreds.
const maxLinks = 64

// link adds the pods of a slot, with their pages.
func (c *cell) link(w *overview.Workload, s *state) {
	pods := c.Members()
	n := min(len(pods), maxLinks)
	c.MoreLinks = len(pods) - n
	for _, p := range pods[:n] {
		link := podLink{Pod: p.Pod, Node: p.Node, URL: s.podURL(w.Namespace, p.Pod), NodeURL: nodeURL(s, p.Node)}
		if link.URL != "" {
			link.Logs = link.URL + "/logs"
		}
		c.Links = append(c.Links, link)
	}
}
