// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/overview"
)

const (
	// reportTimeout bounds a report. reportsAtATime is the number of reports that are read at once, reportsPerUser that of a user.
	reportTimeout  = time.Minute
	reportsAtATime = 4
	reportsPerUser = 2
	// maxReport bounds the text of a report, in bytes, and maxLine a line of it.
	maxReport = 1 << 20
	maxLine   = 4 << 10
	// tailLines is the number of lines of a log.
	tailLines = 200
)

// Reports read about objects with the rights of the user of the request that a context is of. The first of them return warnings of what
// is missing. Those about environments write a text to out, and also change what their names say.
type Reports interface {
	// Explain is why a pod is on its node, with the records of its last scheduling attempts, unless attempts is 0. Why there is no
	// record is a warning.
	Explain(ctx context.Context, pod client.ObjectKey, attempts int) (*overview.Explanation, []string, error)
	// History is what happened to a workload of a kind, and RecordHistory to a DeploymentRecord.
	History(ctx context.Context, kind string, workload client.ObjectKey) (*overview.History, []string, error)
	RecordHistory(ctx context.Context, record client.ObjectKey) (*overview.History, []string, error)
	// Happenings are the events of a namespace, or of all with "", that the timeline has.
	Happenings(ctx context.Context, namespace string) ([]overview.Happening, error)
	// Moves are the events about the moves of a workload of a kind.
	Moves(ctx context.Context, kind string, workload client.ObjectKey) ([]overview.MoveEvent, error)
	// Containers are the names of those of a pod. PodLogs are the last lines of the log of a container, or with "" of all. With follow, it
	// writes further lines until the context ends.
	Containers(ctx context.Context, pod client.ObjectKey) ([]string, error)
	PodLogs(ctx context.Context, out io.Writer, pod client.ObjectKey, container string, lines int64, follow bool) error
	EnvironmentReports
}

// EnvironmentReports are those about environments.
type EnvironmentReports interface {
	// Logs are the last lines of each log, of a component or with "" of all. With follow, it writes further lines until the context ends.
	Logs(ctx context.Context, out io.Writer, environment client.ObjectKey, component string, lines int64, follow bool) error
	Revisions(ctx context.Context, out io.Writer, environment client.ObjectKey) error
	// Rollback returns to a revision, and writes what changes. A preview changes nothing.
	Rollback(ctx context.Context, out io.Writer, environment client.ObjectKey, revision int32, preview bool) error
	Scale(ctx context.Context, out io.Writer, environment client.ObjectKey, component string, replicas int32) error
	// Backups are those of the database, and BackUp creates one.
	Backups(ctx context.Context, out io.Writer, environment client.ObjectKey) error
	BackUp(ctx context.Context, out io.Writer, environment client.ObjectKey) error
}

// write calls one of the Reports.
type write func(ctx context.Context, reports Reports, out io.Writer) error

// read calls one of the Reports, and returns what draws its result, with warnings of what is missing.
type read func(ctx context.Context, reports Reports) (draw, []string, error)

// draw are the parts of a page at a URL that show what was read.
type draw func(s *state, at *url.URL) []*part

// isName reports whether a part of a path can be the name of an object. Names of kinds have capital letters, too, but those of ASCII.
func isName(part string) bool {
	lower := strings.ToLower(part)
	return len(lower) == len(part) && len(validation.IsDNS1123Subdomain(lower)) == 0
}

// report is a text about an object.
type report struct {
	// title is a sentence of the object.
	title string
	// read reads what the page shows, and write writes a text instead.
	read  read
	write write
	// namespace is that of the object, and back its page.
	namespace, back string
	// environment is set for the reports of an environment, and log for a log.
	environment *environmentReport
	log         *logReport
}

// environmentReport is what the page of a report has of an environment.
type environmentReport struct {
	// What is history or backups.
	What, Namespace, Name string
	// Revision is the one whose differences a history shows, "" for the list of revisions.
	Revision string
}

// objectParts are the parts of a path that name an object, by the first part of the path. The first of them is a namespace.
var objectParts = map[string]int{"pods": 2, "records": 2, "environments": 2, "workloads": 3}

// reports complete the reports by the first and the last part of their paths, with what is between them.
var reports = map[string]func(r *report, object []string, q url.Values) error{
	"pods/":                podReport(1),
	"pods/scores":          podReport(shownAttempts),
	"pods/logs":            podLogs,
	"workloads/history":    workloadHistory,
	"records/history":      recordHistory,
	"environments/logs":    logsOf,
	"environments/history": revisionsOf,
	"environments/backups": func(r *report, object []string, _ url.Values) error {
		r.environment = &environmentReport{What: "backups", Namespace: object[0], Name: object[1]}
		return r.of("Backups of "+object[1], func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.Backups(ctx, out, keyOf(object))
		})
	},
}

// keyOf is the key of an object of a namespace.
func keyOf(object []string) client.ObjectKey {
	return client.ObjectKey{Namespace: object[0], Name: object[1]}
}

// reportOf is the report at a path, of which the first part is the kind.
func reportOf(kind string, path []string, q url.Values) (*report, error) {
	n, known := objectParts[kind]
	if !known || len(path) < n || len(path) > n+1 {
		return nil, errNoPage
	}
	for _, part := range path {
		if !isName(part) {
			return nil, errNoPage
		}
	}
	complete := reports[kind+"/"+strings.Join(path[n:], "")]
	if complete == nil {
		return nil, errNoPage
	}
	r := &report{back: "/" + strings.Join(append([]string{kind}, path[:n]...), "/")}
	if err := complete(r, path[:n], q); err != nil {
		return nil, err
	}
	if n > 0 {
		r.namespace = path[0]
	}
	return r, nil
}

// of sets the title and what writes the text.
func (r *report) of(title string, w write) error {
	r.title, r.write = title, w
	return nil
}

func (e *environmentReport) key() client.ObjectKey {
	return client.ObjectKey{Namespace: e.Namespace, Name: e.Name}
}

// revisionsOf lists the revisions, or shows what the rollback to one would change.
func revisionsOf(r *report, object []string, q url.Values) error {
	e := &environmentReport{What: "history", Namespace: object[0], Name: object[1], Revision: q.Get("revision")}
	r.environment = e
	if e.Revision == "" {
		return r.of("Revisions of "+e.Name, func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.Revisions(ctx, out, e.key())
		})
	}
	revision, err := number("revision", e.Revision)
	if err != nil {
		return err
	}
	e.Revision = strconv.Itoa(int(revision))
	return r.of("Revision "+e.Revision+" of "+e.Name, rollback(e.key(), revision, true))
}

func rollback(environment client.ObjectKey, revision int32, preview bool) write {
	return func(ctx context.Context, reports Reports, out io.Writer) error {
		return reports.Rollback(ctx, out, environment, revision, preview)
	}
}

// reportView is what the template of a report gets.
type reportView struct {
	Title, Back, Text, Problem, Follow string
	Cut, Writable                      bool
	Environment                        *environmentReport
	Log                                *logReport
}

// page is the page of a report. The text is not replaced while it is open.
func (r *report) page(s *state, text string, err error) *page {
	v := reportView{Title: r.title, Back: r.back, Text: text, Environment: r.environment, Log: r.log, Writable: s.writable}
	switch {
	case errors.Is(err, errTooLong):
		v.Cut = true
	case err != nil:
		v.Problem = inert(err.Error())
	}
	if r.read != nil && err == nil { // an open page, of which the stream replaces the other parts
		return &page{title: r.title, parts: status(s)}
	}
	if l := r.log; l != nil {
		l.Choices = allInert(l.choices(s))
		v.Follow = r.back + "/logs/follow?" + url.Values{l.Parameter: {l.Of}}.Encode()
	}
	return &page{title: r.title, parts: append(status(s), &part{id: "report", before: render("report", v), fixed: true})}
}

// reportPage returns the page of a report without its text: the parts of it that follow the cluster.
func reportPage(kind string) func([]string, url.Values, *state) (*page, error) {
	return func(path []string, q url.Values, s *state) (*page, error) {
		r, err := reportOf(kind, path, q)
		if err != nil {
			return nil, err
		}
		return r.page(s, "", nil), nil
	}
}

// report serves the page of a report.
func (c *Console) report(w http.ResponseWriter, r *http.Request) {
	path, err := pathOfURL(r.URL)
	var found *report
	if err == nil {
		found, err = reportOf(path[0], path[1:], r.URL.Query())
	}
	if err == nil && c.reports == nil {
		err = errNoPage
	}
	if err != nil {
		c.write(w, r, http.StatusNotFound, failed(err), r.URL)
		return
	}
	s, err := c.hub.current(r.Context(), sessionOf(r))
	if err != nil {
		return // the client is gone
	}
	if found.read != nil {
		p, status := c.drawn(r, found, s)
		c.write(w, r, status, p, r.URL)
		return
	}
	text, err := c.run(r, found.write)
	status := http.StatusOK
	if err != nil && !errors.Is(err, errTooLong) {
		status = http.StatusUnprocessableEntity
	}
	c.write(w, r, status, found.page(s, text, err), r.URL)
}

// drawn is the page of a report that is read, and its status.
func (c *Console) drawn(r *http.Request, found *report, s *state) (*page, int) {
	ctx, cancel := context.WithTimeout(r.Context(), reportTimeout)
	defer cancel()
	done, err := c.reading.take(ctx, userOf(r), "other requests")
	if err != nil {
		return found.page(s, "", err), http.StatusUnprocessableEntity
	}
	defer done()
	shown, warnings, err := found.read(ctx, c.reports)
	if err != nil {
		return found.page(s, "", err), http.StatusUnprocessableEntity
	}
	parts := append(status(s), &part{id: "warnings", before: render("warnings", allInert(warnings)), fixed: true})
	now := *s
	now.at = c.hub.now() // what was read now is as old as the page, however old the last reading is
	for _, p := range shown(&now, r.URL) {
		p.fixed = true // it is not read again while the page is open
		parts = append(parts, p)
	}
	return &page{title: found.title, parts: parts}, http.StatusOK
}

// run returns what a report writes, line by line inert.
func (c *Console) run(r *http.Request, w write) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), reportTimeout)
	defer cancel()
	done, err := c.reading.take(ctx, userOf(r), "other requests")
	if err != nil {
		return "", err
	}
	defer done()
	out := &bounded{}
	err = w(ctx, c.reports, out)
	if out.full {
		err = errTooLong
	}
	var text strings.Builder
	for line := range strings.Lines(string(out.kept)) {
		text.WriteString(inertLine(line) + "\n")
	}
	return text.String(), err
}

func inertLine(line string) string { return display.Inert(strings.TrimRight(line, "\r\n"), maxLine) }

var errTooLong = errors.New("the text is too long")

// bounded keeps the first bytes that are written.
type bounded struct {
	kept []byte
	full bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), maxReport-len(b.kept))
	b.kept = append(b.kept, p[:room]...)
	if room < len(p) {
		b.full = true
		return room, errTooLong
	}
	return room, nil
}

// environmentForms are what changes an environment by the fields of a form.
var environmentForms = map[string]func(environment client.ObjectKey, form url.Values) (write, error){
	"scale": func(environment client.ObjectKey, form url.Values) (write, error) {
		component := form.Get("component")
		if !isName(component) {
			return nil, fmt.Errorf("component is %q: it must be the name of a component", inert(component))
		}
		replicas, err := number("replicas", form.Get("replicas"))
		return func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.Scale(ctx, out, environment, component, replicas)
		}, err
	},
	"rollback": func(environment client.ObjectKey, form url.Values) (write, error) {
		revision, err := number("revision", form.Get("revision"))
		return rollback(environment, revision, false), err
	},
	"backup": func(environment client.ObjectKey, _ url.Values) (write, error) {
		return func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.BackUp(ctx, out, environment)
		}, nil
	},
}
