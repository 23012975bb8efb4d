// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Reports read texts about objects with the rights of the user of the request that a context is of, and write them to out. Those about
// environments also change what their names say.
type Reports interface {
	// Explain is why a pod is on its node, with scores also how the scheduler decided.
	Explain(ctx context.Context, out io.Writer, pod client.ObjectKey, scores bool) error
	// History is what happened to a workload of a kind, and RecordHistory to a DeploymentRecord.
	History(ctx context.Context, out io.Writer, kind string, workload client.ObjectKey) error
	RecordHistory(ctx context.Context, out io.Writer, record client.ObjectKey) error
	// Nodes are the types of all nodes.
	Nodes(ctx context.Context, out io.Writer) error
	// Happenings are the events of a namespace, or of all with "", that the timeline has.
	Happenings(ctx context.Context, namespace string) ([]overview.Happening, error)
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

// isName reports whether a part of a path can be the name of an object. Names of kinds have capital letters, too, but those of ASCII.
func isName(part string) bool {
	lower := strings.ToLower(part)
	return len(lower) == len(part) && len(validation.IsDNS1123Subdomain(lower)) == 0
}

// report is a text about an object.
type report struct {
	// title is a sentence of the object.
	title string
	write write
	// namespace is that of the object, and back its page.
	namespace, back string
	// pod is set for the page of a pod, and environment for the reports of an environment.
	pod         string
	environment *environmentReport
}

// environmentReport is what the page of a report has of an environment.
type environmentReport struct {
	// What is logs, history or backups.
	What, Namespace, Name string
	// Component is the one that logs are of, or "" for all, and Components are those that the environment has.
	Component  string
	Components []string
	// Revision is the one whose differences a history shows, "" for the list of revisions.
	Revision string
}

// objectParts are the parts of a path that name an object, by the first part of the path. The first of them is a namespace.
var objectParts = map[string]int{"nodes": 0, "pods": 2, "records": 2, "environments": 2, "workloads": 3}

// reports complete the reports by the first and the last part of their paths, with what is between them.
var reports = map[string]func(r *report, object []string, q url.Values) error{
	"pods/": func(r *report, object []string, _ url.Values) error {
		r.pod = object[1]
		return r.of("Pod "+object[1], explain(keyOf(object), false))
	},
	"pods/scores": func(r *report, object []string, _ url.Values) error {
		return r.of("Scores of "+object[1], explain(keyOf(object), true))
	},
	"workloads/history": func(r *report, object []string, _ url.Values) error {
		workload := client.ObjectKey{Namespace: object[0], Name: object[2]}
		return r.of("History of "+object[2], func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.History(ctx, out, object[1], workload)
		})
	},
	"nodes/list": func(r *report, _ []string, _ url.Values) error {
		return r.of("All nodes", func(ctx context.Context, reports Reports, out io.Writer) error { return reports.Nodes(ctx, out) })
	},
	"records/history": func(r *report, object []string, _ url.Values) error {
		return r.of("History of "+object[1], func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.RecordHistory(ctx, out, keyOf(object))
		})
	},
	"environments/logs":    logsOf,
	"environments/history": revisionsOf,
	"environments/backups": func(r *report, object []string, _ url.Values) error {
		r.environment = &environmentReport{What: "backups", Namespace: object[0], Name: object[1]}
		return r.of("Backups of "+object[1], func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.Backups(ctx, out, keyOf(object))
		})
	},
}

func explain(pod client.ObjectKey, scores bool) write {
	return func(ctx context.Context, reports Reports, out io.Writer) error {
		return reports.Explain(ctx, out, pod, scores)
	}
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

func logsOf(r *report, object []string, q url.Values) error {
	e := &environmentReport{What: "logs", Namespace: object[0], Name: object[1], Component: q.Get("component")}
	r.environment = e
	if e.Component != "" && !isName(e.Component) {
		return fmt.Errorf("component is %q: it must be the name of a component", inert(e.Component))
	}
	return r.of("Logs of "+e.Name, e.logs(false))
}

func (e *environmentReport) logs(follow bool) write {
	return func(ctx context.Context, reports Reports, out io.Writer) error {
		return reports.Logs(ctx, out, e.key(), e.Component, tailLines, follow)
	}
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
	// Scores is the page of the scores of a pod.
	Scores        string
	Cut, Writable bool
	// Prose is set for a text of sentences, whose lines can be broken.
	Prose       bool
	Environment *environmentReport
}

// page is the page of a report. The text is not replaced while it is open.
func (r *report) page(s *state, text string, err error) *page {
	v := reportView{Title: r.title, Back: r.back, Text: text, Environment: r.environment, Writable: s.writable}
	switch {
	case errors.Is(err, errTooLong):
		v.Cut = true
	case err != nil:
		v.Problem = inert(err.Error())
	}
	if r.pod != "" {
		v.Scores, v.Back, v.Prose = r.back+"/scores", workloadOf(s, r.namespace, r.pod), true
	}
	if e := r.environment; e != nil && e.What == "logs" {
		e.Components = componentsOf(s, e.Namespace, e.Name)
		v.Follow = r.back + "/logs/follow?" + url.Values{"component": {e.Component}}.Encode()
	}
	return &page{title: r.title, parts: append(status(s), &part{id: "report", before: render("report", v), fixed: true})}
}

// workloadOf is the page of the workload of a pod, or that of all.
func workloadOf(s *state, namespace, pod string) string {
	if s.Reading == nil {
		return "/"
	}
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		has := func(slot overview.Slot) bool { return slices.Contains(slot.PodNames(), pod) }
		if w.Namespace == namespace && slices.ContainsFunc(w.Slots, has) {
			return workloadURL(w)
		}
	}
	return "/"
}

// componentsOf are the names of the components of an environment, as it reports them.
func componentsOf(s *state, namespace, name string) (names []string) {
	if s.Reading == nil {
		return nil
	}
	e, err := environmentList.find([]string{namespace, name}, s)
	if err != nil {
		return nil
	}
	for i := range e.Status.Components {
		names = append(names, inert(e.Status.Components[i].Name))
	}
	return names
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
	text, err := c.run(r, found.write)
	status := http.StatusOK
	if err != nil && !errors.Is(err, errTooLong) {
		status = http.StatusUnprocessableEntity
	}
	c.write(w, r, status, found.page(s, text, err), r.URL)
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

func inertLine(line string) string { return overview.Inert(strings.TrimRight(line, "\r\n"), maxLine) }

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
