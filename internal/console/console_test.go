// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// cluster is a Source whose overview a test changes.
type cluster struct {
	mu    sync.Mutex
	o     *overview.Overview
	err   error
	reads int
	// with is the rest of the reading.
	with overview.Reading
}

func (c *cluster) Read(ctx context.Context) (*overview.Reading, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	r := c.with
	r.Overview, r.Problems = c.o, []string{"you may not list nodes"}
	return &r, errors.Join(c.err, ctx.Err())
}

func (c *cluster) set(o *overview.Overview, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o, c.err = o, err
}

func (c *cluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

// A user who may not list nodes saw each slot as if it were on the wrong type.
func TestUnknownValuesAreShownAsUnknown(t *testing.T) {
	w := workload("shop", "web")
	w.Satisfied, w.Reason, w.Actual = overview.Maybe[bool]{}, overview.ReasonUnknown, overview.Maybe[overview.Split]{}
	for i := range w.Slots {
		w.Slots[i].State, w.Slots[i].NodeType = overview.Unknown, ""
	}
	o := overviewOf(w)
	o.Nodes, o.Totals.Workloads = nil, overview.Maybe[int]{}
	_, c := start(t, o)
	_, page := get(t, c, "/")
	for _, want := range []string{
		"? Unknown", ">?/7<", ">?/3<", `aria-label="10 slots: 10 unknown"`, `<i class="unknown type-unknown needs-spot"`, "At least 1 workload<",
	} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, "✗")
	_, page = get(t, c, "/nodes")
	assert.Contains(t, page, "The nodes are unknown.")
}

// workload has 7 spot and 3 on-demand slots, two of the floor, all in place.
func workload(namespace, name string) overview.Workload {
	w := overview.Workload{Namespace: namespace, Kind: "Deployment", Name: name, Source: "capacitymix/" + name, Rule: "70% spot, at least 2 on-demand", Floor: 2, Satisfied: overview.Known(true)}
	w.Replicas, w.Counts = 10, overview.NoCounts()
	w.Desired = overview.Known(overview.Split{Spot: 7, OnDemand: 3})
	w.Actual = w.Desired
	for i := range 10 {
		s := overview.Slot{Slot: i, Type: "spot", State: overview.InPlace, Pod: fmt.Sprint(name, "-", i), Node: fmt.Sprint("spot-", i), NodeType: "spot"}
		if i < 3 {
			s.Type, s.NodeType, s.Node, s.Floor = "on-demand", "on-demand", fmt.Sprint("on-demand-", i), i < 2
		}
		w.Slots = append(w.Slots, s)
	}
	return w
}

func overviewOf(workloads ...overview.Workload) *overview.Overview {
	o := &overview.Overview{Workloads: workloads, Nodes: []overview.NodeGroup{{Type: "spot", Zone: "a", Nodes: 7, Accepting: 6, Departing: 1, Pods: overview.Known(7)}}}
	o.Totals.Mixes, o.Totals.Workloads = overview.Known(len(workloads)), overview.Known(len(workloads))
	return o
}

const interval = 5 * time.Millisecond

func start(t testing.TB, o *overview.Overview) (*cluster, *Console) {
	source := &cluster{o: o}
	return source, running(t, Options{Source: source, Interval: interval, Log: slog.New(slog.DiscardHandler)})
}

// running is a Console that reads until the end of the test.
func running(t testing.TB, o Options) *Console {
	c := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var g sync.WaitGroup
	g.Go(func() { c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		g.Wait()
	})
	return c
}

func get(t testing.TB, h http.Handler, path string) (*httptest.ResponseRecorder, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return w, w.Body.String()
}

// elements are the elements of a page by their name.
func elements(t testing.TB, page string) map[string][]*html.Node {
	root, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	all := map[string][]*html.Node{}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all[n.Data] = append(all[n.Data], n)
		}
	}
	return all
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func TestThePagesAreCompleteWithoutAScript(t *testing.T) {
	bare := workload("shop", "")
	bare.Kind = ""
	borrowed := workload("shop", "cart")
	borrowed.Satisfied, borrowed.Reason, borrowed.Message, borrowed.Revision = overview.Known(false), "NoCapacity", "no spot node has capacity", "6f7c9d"
	borrowed.Slots[4].State, borrowed.Slots[4].NodeType, borrowed.Slots[4].Reason = overview.Borrowed, "on-demand", "the slot requires spot"
	_, c := start(t, overviewOf(borrowed, workload("shop", "web"), bare))

	w, page := get(t, c, "/")
	require.Equal(t, http.StatusOK, w.Code)
	all := elements(t, page)
	assert.Len(t, all["tr"], 1+3)
	assert.Len(t, all["i"], 3*10+9, "a cell for each slot, and the legend")
	for _, want := range []string{"✗ NoCapacity", "no spot node has capacity", "✓ Satisfied", "7/7", "pods without a controller", "you may not list nodes", "As of "} {
		assert.Contains(t, page, want)
	}
	assert.Contains(t, page, `<a href="/?filter=NoCapacity">NoCapacity</a> 1`)
	var links []string
	_, page = get(t, c, "/?filter=shop") // without the pictures of the overview
	for _, a := range elements(t, page)["a"] {
		if href := attribute(a, "href"); strings.HasPrefix(href, "/workloads") {
			links = append(links, href)
		}
	}
	require.Equal(t, []string{"/workloads/shop/Deployment/cart?revision=6f7c9d", "/workloads/shop/Deployment/web", "/workloads/shop/-/-"}, links)
	for _, link := range links {
		w, page := get(t, c, link)
		require.Equal(t, http.StatusOK, w.Code, link)
		rows := elements(t, page)["tr"][1:]
		require.Len(t, rows, 10, "a row for each slot")
	}
	_, page = get(t, c, links[0])
	assert.Contains(t, page, `aria-label="Slot 4 requires spot: borrowed, pod cart-4 on node spot-4"`)
	assert.Contains(t, page, `<td data-label="State">borrowed <span class="dim">the slot requires spot</span></td>`)
	_, page = get(t, c, "/nodes")
	assert.Equal(t, "spot", text(elements(t, page)["th"][6]))

	for path, want := range map[string]string{"/workloads/shop/Deployment/gone": "there is no shop Deployment gone with a mix", "/else": "there is no such page", "/workloads/a/%3Cb%3E/x": "&lt;b&gt;"} {
		w, page := get(t, c, path)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
		assert.Contains(t, page, want, path)
	}
}

func TestTheFilterAndThePagesOfALongList(t *testing.T) {
	var many []overview.Workload
	for i := range 250 {
		many = append(many, workload(fmt.Sprint("team-", i%5), fmt.Sprint("web-", i)))
	}
	_, c := start(t, overviewOf(many...))
	rows := func(path string) int {
		_, page := get(t, c, path)
		return len(elements(t, page)["tr"]) - 1
	}
	assert.Equal(t, []int{100, 100, 50, 50, 100}, []int{rows("/"), rows("/?page=2"), rows("/?page=3"), rows("/?page=99"), rows("/?page=x")})
	assert.Equal(t, 50, rows("/?filter=TEAM-3"))
	assert.Equal(t, 3, rows("/?filter=team-3+web-3+deployment&page=7"), "web-3, web-33 and web-38")
	for _, shown := range []string{"satisfied", "70%25+spot", "at+least+2", "7/7", "web-12", "capacitymix/web-2"} {
		assert.NotZero(t, rows("/?filter="+shown), shown)
	}
	_, page := get(t, c, "/?filter=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
	assert.Len(t, elements(t, page)["script"], 1, "the text of the filter is inert")
	assert.Contains(t, page, "0 workloads of 250 match")
	_, page = get(t, c, "/?page=2&filter=web")
	assert.Contains(t, page, `href="/?filter=web" rel="prev"`)
	assert.Contains(t, page, `href="/?filter=web&amp;page=3" rel="next"`)
}

// Names and messages of tenants are text, wherever they are shown.
func TestTextsOfTenantsAreInert(t *testing.T) {
	for _, evil := range []string{
		`<script>alert(1)</script>`, `" onmouseover="alert(1)`, `javascript:alert(1)`, `</tr></table><iframe src=//evil.example>`, `{{.}}`, `'><img src=x onerror=alert(1)>`,
	} {
		w := workload(evil, evil)
		w.Satisfied, w.Kind, w.Revision, w.Reason, w.Message, w.Source, w.Rule = overview.Known(false), evil, evil, evil, evil, evil, evil
		for i := range w.Slots {
			w.Slots[i] = overview.Slot{Slot: i, Type: evil, Pod: evil, Node: evil, NodeType: evil, State: overview.State(evil), Reason: evil}
		}
		o := overviewOf(w)
		o.Nodes[0].Zone, o.Nodes[0].Type = evil, evil
		source, c := start(t, o)
		source.set(o, errors.New(evil))
		for _, path := range []string{"/", workloadURL(&o.Workloads[0]), "/nodes"} {
			s := &state{Reading: &overview.Reading{Overview: o, Problems: []string{evil}}, failure: evil, rows: &sync.Map{}}
			at, err := url.Parse(path)
			require.NoError(t, err)
			p, err := pageOf(at, s)
			require.NoError(t, err)
			recorder := httptest.NewRecorder()
			c.write(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody), http.StatusOK, p, at)
			all := elements(t, recorder.Body.String())
			assert.Len(t, all["script"], 1)
			assert.Empty(t, all["iframe"])
			assert.Empty(t, all["img"])
			for _, list := range all {
				for _, n := range list {
					for _, a := range n.Attr {
						assert.False(t, strings.HasPrefix(a.Key, "on"), "%s of %s", a.Key, n.Data)
						assert.NotContains(t, []string{"href", "src"}, strings.TrimPrefix(a.Val, "javascript:"))
						if a.Key == "href" || a.Key == "src" {
							assert.True(t, strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "#"), a.Val)
							assert.False(t, strings.HasPrefix(a.Val, "//"), a.Val)
						}
					}
				}
			}
		}
	}
}

func TestEveryResponseIsGuarded(t *testing.T) {
	_, c := start(t, overviewOf())
	for _, path := range []string{"/", "/nodes", "/else", "/static/console.css", "/static/console.js"} {
		w, _ := get(t, c, path)
		policy := w.Header().Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'")
		assert.Contains(t, policy, "frame-ancestors 'none'")
		assert.NotContains(t, policy, "unsafe")
		assert.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		assert.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		assert.NotContains(t, w.Body.String(), "style=")
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// listen opens the stream of a page as its script does, and returns what it receives, one part at a time.
func listen(t *testing.T, c *Console, path string) (next func() replacement) {
	t.Helper()
	_, page := get(t, c, path)
	return follow(t, c, attribute(elements(t, page)["body"][0], "data-stream"))
}

func follow(t *testing.T, c *Console, stream string) (next func() replacement) {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.CloseClientConnections)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+stream, http.NoBody)
	require.NoError(t, err)
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return func() (part replacement) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				part = replacement{}
				require.NoError(t, json.Unmarshal([]byte(data), &part))
				if part.ID != "age" {
					return part
				}
			}
		}
		require.NoError(t, lines.Err())
		require.Fail(t, "the stream ended")
		return part
	}
}

func TestOnlyWhatChangesIsSent(t *testing.T) {
	before := []overview.Workload{workload("shop", "cart"), workload("shop", "web")}
	source, c := start(t, overviewOf(before...))
	next := listen(t, c, "/?filter=shop")
	pending := workload("shop", "web")
	pending.Slots[9].State, pending.Pending = overview.Pending, overview.Known(1)
	source.set(overviewOf(before[0], pending), nil)
	part := next()
	assert.True(t, strings.HasPrefix(part.HTML, `<tr id="`+part.ID+`">`), "one row: %s", part.HTML)
	assert.Contains(t, part.HTML, "pending")
	assert.Less(t, len(part.HTML), 5<<10, "bytes for one workload")

	source.set(overviewOf(before[0]), nil)
	assert.Equal(t, []string{"totals", "workloads"}, []string{next().ID, next().ID}, "a workload is gone, so the list is another one")
	source.set(overviewOf(before[0]), errors.New("connection refused"))
	part = next()
	assert.Equal(t, "status", part.ID)
	assert.Contains(t, part.HTML, "Not up to date: connection refused")
	source.set(overviewOf(before[0]), nil)
	assert.NotContains(t, next().HTML, "Not up to date")
}

// What changed between the page and its stream, or while the stream was broken, is sent at its beginning.
func TestAStreamBeginsWithWhatThePageLacks(t *testing.T) {
	source, c := start(t, overviewOf(workload("shop", "web")))
	_, page := get(t, c, "/")
	source.set(overviewOf(), nil)
	require.Eventually(t, func() bool { return len(c.hub.peek("").Overview.Workloads) == 0 }, 5*time.Second, interval)
	next := follow(t, c, attribute(elements(t, page)["body"][0], "data-stream"))
	assert.Equal(t, []string{"status", "totals", "attention", "cost", "bars", "workloads"}, []string{next().ID, next().ID, next().ID, next().ID, next().ID, next().ID})
}

// What is sent to an open page whose workload is gone replaces a part that the page has.
func TestAnOpenPageShowsThatItsWorkloadIsGone(t *testing.T) {
	source, c := start(t, overviewOf(workload("shop", "web")))
	_, page := get(t, c, "/workloads/shop/Deployment/web")
	source.set(overviewOf(), nil)
	require.Eventually(t, func() bool { return len(c.hub.peek("").Overview.Workloads) == 0 }, 5*time.Second, interval)
	next := follow(t, c, attribute(elements(t, page)["body"][0], "data-stream"))
	assert.Equal(t, []replacement{{ID: "slots", Gone: true}, {ID: "workload", Gone: true}}, []replacement{next(), next()}, "what it was is not shown")
	part := next()
	assert.Contains(t, part.HTML, "there is no shop Deployment web with a mix")
	assert.Contains(t, page, `id="`+part.ID+`"`)
}

// A page that is open while a right is taken away loses what the user may not list any more. Once it is there again, the script loads the
// page again.
func TestAnOpenPageLosesWhatMayNotBeListed(t *testing.T) {
	source, c := start(t, overviewOf(workload("shop", "web")))
	source.with = *shop()
	next := listen(t, c, "/mixes/shop/web")
	source.mu.Lock()
	source.with.Mixes, source.with.Unread = nil, []string{overview.MixesResource}
	source.mu.Unlock()
	assert.Equal(t, []replacement{{ID: "governed", Gone: true}, {ID: "object", Gone: true}}, []replacement{next(), next()})
	assert.Contains(t, next().HTML, "there is no CapacityMix shop/web, or you may not read it")
	source.mu.Lock()
	source.with = *shop()
	source.mu.Unlock()
	assert.Equal(t, []string{"status", "object", "governed"}, []string{next().ID, next().ID, next().ID})
}

// A page that is served before the first reading has none of the parts that come with it: the script loads such a page again.
func TestAPageBeforeTheFirstReadingIsLoadedAgain(t *testing.T) {
	source, c := start(t, overviewOf(workload("shop", "web")))
	source.set(nil, errors.New("connection refused"))
	_, page := get(t, c, "/")
	assert.Contains(t, page, "Not up to date: connection refused")
	assert.Contains(t, page, `id="unread"`)
	assert.NotContains(t, page, `id="totals"`)
	source.set(overviewOf(workload("shop", "web")), nil)
	require.Eventually(t, func() bool { return c.hub.peek("").Reading != nil }, 5*time.Second, interval)
	next := follow(t, c, attribute(elements(t, page)["body"][0], "data-stream"))
	assert.Equal(t, []string{"status", "totals"}, []string{next().ID, next().ID}, "the page has no totals")
	_, page = get(t, c, "/")
	assert.NotContains(t, page, `id="unread"`)
	_, script := get(t, c, "/static/console.js")
	assert.Contains(t, script, `if (document.getElementById("unread") || idle) location.reload();`)
}

func TestNothingIsReadWithoutAPage(t *testing.T) {
	source, c := start(t, overviewOf())
	assert.Never(t, func() bool { return source.count() > 0 }, 10*interval, interval)
	c.hub.mu.Lock()
	c.hub.now = func() time.Time { return time.Now().Add(time.Hour) } // the visit was long ago
	c.hub.mu.Unlock()
	get(t, c, "/")
	assert.Eventually(t, func() bool { return source.count() > 0 }, 5*time.Second, interval)
}

// A reading of a large cluster takes long, and the page that shows the last one does not wait for it.
func TestAnOldReadingIsServedAtOnceWithItsAge(t *testing.T) {
	var mu sync.Mutex
	now, reads, release := time.Now(), 0, make(chan struct{})
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	c := running(t, Options{Interval: interval, Log: slog.New(slog.DiscardHandler), Now: clock, Source: readings(func() *overview.Reading {
		if reads++; reads > 1 {
			<-release
		}
		return &overview.Reading{Overview: overviewOf(workload("shop", "web"))}
	})})
	defer close(release)
	get(t, c, "/")
	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	w, page := get(t, c, "/")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, page, "✓ Satisfied")
	assert.Contains(t, page, "3600 seconds before this page was loaded")
	assert.Contains(t, page, `data-age="3600"`)
}

func TestAllThatIsShownIsFound(t *testing.T) {
	r := &overview.Reading{Overview: overviewOf(workload("shop", "web"), workload("bank", "ledger")), Environments: []*v1alpha1.Environment{environment()}}
	r.Mixes = []*v1alpha1.CapacityMix{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cheap"}}}
	r.Nodes = []overview.NodeDetail{{NodeStatus: overview.NodeStatus{Name: "spot-0"}}}
	r.Overview.Workloads[1].Slots = []overview.Slot{{Pod: "ledger-0"}, {}}
	s := &state{Reading: r, rows: &sync.Map{}}
	names := func(text string) (all []string) {
		for _, f := range findIn(s, text) {
			all = append(all, f.Name+" "+f.URL)
		}
		return all
	}
	assert.Equal(t, []string{"shop/web /workloads/shop/Deployment/web"}, names("WEB shop deployment"))
	assert.Equal(t, []string{"Environments /environments", "team/shop /environments/team/shop"}, names("environment"))
	assert.Equal(t, []string{"shop/cheap /mixes/shop/cheap"}, names("cheap"))
	assert.Equal(t, []string{"spot-0 /nodes/spot-0"}, names("spot-0"))
	assert.Equal(t, []string{"bank/ledger-0 /pods/bank/ledger-0"}, names("pod ledger"))
	assert.Empty(t, names("nowhere"))
	assert.NotContains(t, names(""), "", "without a text, all pages")
	for i := range 2 * mostFound {
		r.Overview.Workloads = append(r.Overview.Workloads, workload("shop", fmt.Sprint("web-", i)))
	}
	r.Overview.Workloads[1].Slots = nil
	assert.Len(t, names("web"), mostFound)
	s.Reading = nil
	assert.Contains(t, names("over"), "Overview /")

	_, c := start(t, overviewOf(workload("shop", "web")))
	w, body := get(t, c, "/find?q=web+deployment")
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	assert.JSONEq(t, `[{"name":"shop/web","detail":"Deployment","url":"/workloads/shop/Deployment/web"}]`, body)
}

func TestAnErrorOfTheConnectionIsPlain(t *testing.T) {
	refused := &url.Error{Op: "Get", URL: "https://10.0.0.1:6443/apis", Err: &net.OpError{Op: "dial", Err: errors.New("connect: connection refused")}}
	for want, err := range map[string]error{
		"the API server cannot be reached":         fmt.Errorf("list pods: %w", refused),
		"the API server did not respond in time":   fmt.Errorf("list pods: %w", context.DeadlineExceeded),
		"the mix was changed since it was planned": errors.New("the mix was changed since it was planned"),
	} {
		assert.Equal(t, want, plainly(err))
	}
	assert.Contains(t, plainly(apierrors.NewUnauthorized("no")), "sign in again")
}

// compressedSize is the number of bytes of a page that are sent.
func compressedSize(t *testing.T, o *overview.Overview, path string) int {
	_, c := start(t, o)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	sent := w.Body.Len()
	z, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	page, err := io.ReadAll(z)
	require.NoError(t, err)
	t.Log(path, len(page), "bytes,", sent, "compressed")
	return sent
}

func TestEachPageIsBelowOneLink(t *testing.T) {
	for path, want := range map[string]string{
		"/": "Overview page", "/workloads/a/b/c": "Overview true", "/mixes/a/b": "Mixes true", "/domain": "Nodes true", "/nodes": "Nodes page", "/limits": "Limits page",
		"/limits/new": "Limits true", "/records/a/b": "Records true", "/environments": "Environments page", "/savings": "Savings page", "/other": "",
	} {
		var current []string
		for _, l := range navOf(path) {
			if l.Current != "" {
				current = append(current, l.Name+" "+l.Current)
			}
		}
		assert.Equal(t, want, strings.Join(current, ", "), path)
	}
	assert.Len(t, navOf("/"), 9)
}
