// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/decision"
)

// fakeReports records the reports that pages read, and answers each with a text or an error, after what wait waits for.
type fakeReports struct {
	mu   sync.Mutex
	read []string
	text string
	err  error
	// decisions and entries are those of the explanation and of the history of a workload.
	decisions []*decision.Record
	entries   []overview.Entry
	// unread is set if some of them cannot be read.
	unread bool
	wait   func(ctx context.Context)
	// happened are the events of the timeline, noEvents is why there are none.
	happened []overview.Happening
	noEvents error
	// moves are the events about moves, and containers those of each pod.
	moves      []overview.MoveEvent
	containers []string
}

// count is how many reports were read.
func (f *fakeReports) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.read)
}

func (f *fakeReports) Moves(ctx context.Context, kind string, workload client.ObjectKey) ([]overview.MoveEvent, error) {
	err := f.answer(ctx, io.Discard, "moves", kind, workload)
	return f.moves, errors.Join(err, f.noEvents)
}

func (f *fakeReports) answer(ctx context.Context, out io.Writer, report string, of ...any) error {
	if f.wait != nil {
		f.wait(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = append(f.read, strings.TrimSpace(report+" "+strings.TrimSpace(fmt.Sprintln(of...))))
	if _, err := io.WriteString(out, f.text); err != nil {
		return err
	}
	return f.err
}

func (f *fakeReports) Explain(ctx context.Context, pod client.ObjectKey, attempts int) (*overview.Explanation, []string, error) {
	err := f.answer(ctx, io.Discard, "explain", pod, attempts)
	e := &overview.Explanation{Namespace: pod.Namespace, Pod: pod.Name, Why: []string{f.text}, Decisions: f.decisions, DecisionsUnread: f.unread}
	return e, []string{f.text}, err
}

func (f *fakeReports) History(ctx context.Context, kind string, workload client.ObjectKey) (*overview.History, []string, error) {
	err := f.answer(ctx, io.Discard, "history", kind, workload)
	h := &overview.History{Namespace: workload.Namespace, Kind: kind, Name: workload.Name, Unread: f.unread}
	h.Entries = append(slices.Clone(f.entries), overview.Entry{From: workload.Name + "-1", Type: f.text, Reason: f.text, Message: f.text, Count: 3})
	return h, nil, err
}

func (f *fakeReports) Happenings(context.Context, string) ([]overview.Happening, error) {
	return f.happened, f.noEvents
}

func (f *fakeReports) RecordHistory(ctx context.Context, record client.ObjectKey) (*overview.History, []string, error) {
	h := &overview.History{Namespace: record.Namespace, Name: record.Name, Entries: []overview.Entry{{From: "Status", Message: f.text}}}
	return h, nil, f.answer(ctx, io.Discard, "records history", record)
}

func (f *fakeReports) Logs(ctx context.Context, out io.Writer, environment client.ObjectKey, component string, lines int64, follow bool) error {
	return f.answer(ctx, out, "logs", environment, component, lines, follow)
}

func (f *fakeReports) Containers(ctx context.Context, pod client.ObjectKey) ([]string, error) {
	return f.containers, f.answer(ctx, io.Discard, "containers", pod)
}

func (f *fakeReports) PodLogs(ctx context.Context, out io.Writer, pod client.ObjectKey, container string, lines int64, follow bool) error {
	return f.answer(ctx, out, "pod logs", pod, container, lines, follow)
}

func (f *fakeReports) Revisions(ctx context.Context, out io.Writer, environment client.ObjectKey) error {
	return f.answer(ctx, out, "revisions", environment)
}

func (f *fakeReports) Rollback(ctx context.Context, out io.Writer, environment client.ObjectKey, revision int32, preview bool) error {
	return f.answer(ctx, out, "rollback", environment, revision, preview)
}

func (f *fakeReports) Scale(ctx context.Context, out io.Writer, environment client.ObjectKey, component string, replicas int32) error {
	return f.answer(ctx, out, "scale", environment, component, replicas)
}

func (f *fakeReports) Backups(ctx context.Context, out io.Writer, environment client.ObjectKey) error {
	return f.answer(ctx, out, "backups", environment)
}

func (f *fakeReports) BackUp(ctx context.Context, out io.Writer, environment client.ObjectKey) error {
	return f.answer(ctx, out, "backup", environment)
}

func (f *fakeReports) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.read) == 0 {
		return ""
	}
	return f.read[len(f.read)-1]
}

// reporting is a console with an environment whose pages have reports.
func reporting(t *testing.T, ran *fakeReports) *Console {
	t.Helper()
	_, c := editor(t, interceptor.Funcs{}, func(o *Options) {
		o.Reports = ran
		o.Environment = func(context.Context, client.Client, *v1alpha1.Environment, string) (*v1alpha1.Environment, error) {
			return nil, errors.New("not called")
		}
	}, environment())
	return c
}

// Each page of a text has one report, of names and numbers.
func TestAPageReadsItsReport(t *testing.T) {
	ran := &fakeReports{text: "All is well.\n"}
	c := reporting(t, ran)
	for path, want := range map[string]string{
		"/pods/team/web-1":                               "explain team/web-1 1",
		"/pods/team/web-1/scores":                        "explain team/web-1 5",
		"/workloads/team/Deployment/web/history":         "history Deployment team/web",
		"/records/team/cart/history":                     "records history team/cart",
		"/pods/team/web-1/logs":                          "pod logs team/web-1  200 false",
		"/pods/team/web-1/logs?container=app":            "pod logs team/web-1 app 200 false",
		"/environments/team/shop/logs":                   "logs team/shop  200 false",
		"/environments/team/shop/logs?component=backend": "logs team/shop backend 200 false",
		"/environments/team/shop/history":                "revisions team/shop",
		"/environments/team/shop/history?revision=3":     "rollback team/shop 3 true",
		"/environments/team/shop/backups":                "backups team/shop",
	} {
		w, page := get(t, c, path)
		assert.Equal(t, http.StatusOK, w.Code, path)
		assert.Equal(t, want, ran.last(), path)
		assert.Contains(t, page, "All is well.", path)
	}
	before := ran.last()
	for _, path := range []string{
		"/pods/team/--kubeconfig=x", "/pods/-team/web", "/workloads/team/Deployment/web/other", "/workloads/team/--output/web/history",
		"/records/team/cart/logs", "/pods/team/web-1/logs?container=-f", "/pods/team/-A/logs", "/environments/team/shop/shell", "/environments/team/-A/logs", "/environments/team/shop/logs?component=-f",
		"/environments/team/shop/history?revision=--all", "/pods/team/" + strings.Repeat("a", 254), "/pods/team/web%20-A", "/pods/team/web%0a",
	} {
		w, _ := get(t, c, path)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
	}
	assert.Equal(t, before, ran.last(), "nothing was read")
}

// What a report writes is inert, and neither an error nor a long text loses what came before it.
func TestTextsOfReportsAreInertAndBounded(t *testing.T) {
	ran := &fakeReports{text: "<script>alert(1)</script>\n\x1b[31mred \u202egnp\u00e4\n", err: errors.New("the API server is <b>away</b>")}
	c := reporting(t, ran)
	w, page := get(t, c, "/environments/team/shop/history")
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;\n\\x1b[31mred \\u202egnp\\u00e4\n")
	assert.Contains(t, page, "the API server is &lt;b&gt;away&lt;/b&gt;")

	ran.text, ran.err = strings.Repeat(strings.Repeat("x", 10_000)+"\n", 200), nil
	w, page = get(t, c, "/environments/team/shop/history")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, page, "Only the first part is shown")
	assert.Less(t, len(page), maxReport+maxLine)
	assert.NotContains(t, page, strings.Repeat("x", maxLine+1))
}

// A log is sent line by line, and a line without an end in pieces.
func TestALogIsFollowed(t *testing.T) {
	ran := &fakeReports{text: "one\ntwo <b>\x1b[31m\n" + strings.Repeat("x", maxLine+10) + "\n", err: errors.New("the pod is gone")}
	server := httptest.NewServer(reporting(t, ran))
	defer server.Close()
	response, err := http.Get(server.URL + "/environments/team/shop/logs/follow?component=backend") //nolint:noctx // a test
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	assert.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	var events []string
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			events = append(events, data)
		}
	}
	// The inert form of a piece that is as long as a line may be is the piece.
	assert.Equal(t, []string{`"one"`, `"two \u003cb\u003e\\x1b[31m"`, `"` + strings.Repeat("x", maxLine) + `"`, `"xxxxxxxxxx"`, `"the pod is gone"`}, events)
	assert.Equal(t, "logs team/shop backend 200 true", ran.last())
	for _, path := range []string{
		"/environments/team/shop/logs/follow?component=--x", "/pods/team/web-1/logs/follow?container=--x", "/pods/team/-A/logs/follow",
		"/environments/team/shop/history/follow",
	} {
		w, _ := get(t, reporting(t, ran), path)
		assert.Equal(t, http.StatusNotFound, w.Code, path)
	}
}

// The log of a pod is followed as that of an environment, and its page has the containers that the user may read.
func TestTheLogOfAPodIsFollowed(t *testing.T) {
	ran := &fakeReports{text: "one\n", containers: []string{"app", "<b>mesh"}}
	c := reporting(t, ran)
	_, page := get(t, c, "/pods/team/web-1")
	assert.Contains(t, page, `<a href="/pods/team/web-1/logs">Logs</a>`)
	_, page = get(t, c, "/pods/team/web-1/logs?container=app")
	for _, want := range []string{
		"<title>Logs of pod web-1", `data-follow="/pods/team/web-1/logs/follow?container=app"`, `<select name="container">`,
		`<option value="">All</option><option selected>app</option><option>&lt;b&gt;mesh</option>`, `<pre id="text">one`,
	} {
		assert.Contains(t, page, want)
	}
	w, followed := get(t, c, "/pods/team/web-1/logs/follow?container=app")
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, "pod logs team/web-1 app 200 true", ran.last())
	assert.Contains(t, followed, "event: line\ndata: \"one\"\n")

	ran.containers = make([]string, 2*mostChoices)
	_, page = get(t, c, "/pods/team/web-1/logs")
	assert.Equal(t, mostChoices+1, strings.Count(page, "<option"), "a pod can have any number of containers")
	ran.err = errors.New("pods is forbidden")
	w, page = get(t, c, "/pods/team/web-1/logs")
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, page, `role="alert">pods is forbidden</p>`)
	assert.Equal(t, "containers team/web-1", ran.last(), "no log is read of a pod that may not be")
}

// No more logs are followed at once than there may be.
func TestFollowersAreBounded(t *testing.T) {
	begun, end := make(chan struct{}, mostFollowers), make(chan struct{})
	_, c := editor(t, interceptor.Funcs{}, func(o *Options) {
		o.Reports = &fakeReports{wait: func(context.Context) {
			begun <- struct{}{}
			<-end
		}}
	}, environment())
	var g sync.WaitGroup
	for range mostFollowers {
		g.Go(func() {
			c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/environments/team/shop/logs/follow", http.NoBody))
		})
	}
	for range mostFollowers {
		<-begun
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/environments/team/shop/logs/follow", http.NoBody))
	assert.Equal(t, http.StatusTooManyRequests, w.Code)
	close(end)
	g.Wait()
}

// The texts about a change of the replicas of a component, of the revision, and about a backup are shown.
func TestAChangeOfAnEnvironmentShowsItsText(t *testing.T) {
	ran := &fakeReports{text: "backend scaled from 1 to 3 <b>\n"}
	c := reporting(t, ran)
	for want, form := range map[string]url.Values{
		"scale team/shop backend 3":  {"verb": {"scale"}, "component": {"backend"}, "replicas": {"3"}},
		"rollback team/shop 2 false": {"verb": {"rollback"}, "revision": {"2"}},
		"backup team/shop":           {"verb": {"backup"}},
	} {
		w := post(t, c, "/environments/team/shop/run", form)
		assert.Equal(t, http.StatusOK, w.Code, w.Body)
		assert.Equal(t, want, ran.last())
		assert.Contains(t, w.Body.String(), "backend scaled from 1 to 3 &lt;b&gt;")
	}
	before := len(ran.read)
	for _, form := range []url.Values{
		{"verb": {"scale"}, "component": {"--all"}, "replicas": {"3"}},
		{"verb": {"scale"}, "component": {"backend"}, "replicas": {"3 --force"}},
		{"verb": {"rollback"}, "revision": {"latest"}},
		{"verb": {"rollback"}},
	} {
		w := post(t, c, "/environments/team/shop/run", form)
		assert.Equal(t, http.StatusUnprocessableEntity, w.Code, form)
	}
	assert.Len(t, ran.read, before)
	ran.err = errors.New("a database has one replica")
	w := post(t, c, "/environments/team/shop/run", url.Values{"verb": {"scale"}, "component": {"database"}, "replicas": {"2"}})
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Contains(t, w.Body.String(), `role="alert">a database has one replica</p>`)
}

// Each slot leads to its pod, and each object to its texts, where there are reports. Elsewhere the pages name the commands.
func TestPagesLeadToReports(t *testing.T) {
	c := running(t, Options{
		Source: &cluster{o: overviewOf(workload("team", "web"))}, Interval: interval, Reports: &fakeReports{}, Log: slog.New(slog.DiscardHandler),
	})
	_, page := get(t, c, "/workloads/team/Deployment/web")
	links := map[string]bool{}
	for _, a := range elements(t, page)["a"] {
		links[attribute(a, "href")] = true
	}
	for i := range 10 {
		assert.True(t, links[fmt.Sprint("/pods/team/web-", i)], i)
		assert.True(t, links[fmt.Sprintf("/pods/team/web-%d/logs", i)], i)
	}
	assert.True(t, links["/workloads/team/Deployment/web/history"])
	_, without := start(t, overviewOf(workload("team", "web")))
	_, page = get(t, without, "/workloads/team/Deployment/web")
	assert.Contains(t, page, "kubectl berth explain POD")
	assert.NotContains(t, page, "/pods/")
	_, page = get(t, c, "/pods/team/web-1")
	assert.Contains(t, page, `<a href="/workloads/team/Deployment/web">Deployment/web</a>`)
	assert.Contains(t, page, `<a href="/pods/team/web-1/scores">Earlier attempts</a>`)
	w, _ := get(t, without, "/pods/team/web-1")
	assert.Equal(t, http.StatusNotFound, w.Code)
}

func TestAPartOfAPathIsANameOfAnObject(t *testing.T) {
	for part, want := range map[string]bool{
		"web": true, "web-0.shop": true, "ReplicaSet": true,
		"": false, "..": false, "-A": false, "a/b": false, "a b": false, "--all-namespaces": false,
		"\u212aube": false, // the Kelvin sign, a capital letter of k
	} {
		assert.Equal(t, want, isName(part), "%q", part)
	}
}
