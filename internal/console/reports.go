// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

const (
	// commandTimeout bounds a command. commandsAtATime is the number of commands that run at once, commandsPerUser that of a user.
	commandTimeout  = time.Minute
	commandsAtATime = 4
	commandsPerUser = 2
	// maxReport bounds what a command prints, in bytes, and maxLine a line of it.
	maxReport = 1 << 20
	maxLine   = 4 << 10
	// tailLines is the number of lines of a log.
	tailLines = 200
)

// Command runs a command of kubectl berth with the rights of the user of the request that the context is of, and writes what the command
// prints to out.
type Command func(ctx context.Context, out io.Writer, args ...string) error

// objectName is what names of Kubernetes objects look like. None is taken for a flag.
var objectName = regexp.MustCompile(`^[A-Za-z0-9]([-.A-Za-z0-9]{0,251}[A-Za-z0-9])?$`)

// report is a text about an object, which a command prints.
type report struct {
	// title is a sentence of the object, and args the command with its arguments.
	title string
	args  []string
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
		return r.of("Pod ", object[1], "explain", object[1])
	},
	"pods/scores": func(r *report, object []string, _ url.Values) error {
		return r.of("Scores of ", object[1], "explain", object[1], "--scores")
	},
	"workloads/history": func(r *report, object []string, _ url.Values) error {
		return r.of("History of ", object[2], "history", object[1]+"/"+object[2])
	},
	"nodes/list": func(r *report, _ []string, _ url.Values) error {
		return r.of("All nodes", "", "nodes")
	},
	"records/history": func(r *report, object []string, _ url.Values) error {
		return r.of("History of ", object[1], "records", "history", object[1])
	},
	"environments/logs":    logsOf,
	"environments/history": revisionsOf,
	"environments/backups": func(r *report, object []string, _ url.Values) error {
		r.environment = &environmentReport{What: "backups", Namespace: object[0], Name: object[1]}
		return r.of("Backups of ", object[1], "env", "database-backups", object[1])
	},
}

// reportOf is the report at a path, of which the first part is the kind.
func reportOf(kind string, path []string, q url.Values) (*report, error) {
	n, known := objectParts[kind]
	if !known || len(path) < n || len(path) > n+1 {
		return nil, errNoPage
	}
	for _, part := range path {
		if !objectName.MatchString(part) {
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
		r.args = append(r.args, "--namespace", r.namespace)
	}
	return r, nil
}

// of sets the title, which ends with a name, and the command.
func (r *report) of(title, name string, args ...string) error {
	r.title, r.args = title+name, args
	return nil
}

func logsOf(r *report, object []string, q url.Values) error {
	e := &environmentReport{What: "logs", Namespace: object[0], Name: object[1], Component: q.Get("component")}
	r.environment = e
	args := []string{"env", "logs", e.Name, "--tail", strconv.Itoa(tailLines)}
	if e.Component != "" {
		if !objectName.MatchString(e.Component) {
			return fmt.Errorf("component is %q: it must be the name of a component", inert(e.Component))
		}
		args = append(args, "--component", e.Component)
	}
	return r.of("Logs of ", e.Name, args...)
}

// revisionsOf lists the revisions, or shows what the rollback to one would change.
func revisionsOf(r *report, object []string, q url.Values) error {
	e := &environmentReport{What: "history", Namespace: object[0], Name: object[1], Revision: q.Get("revision")}
	r.environment = e
	if e.Revision == "" {
		return r.of("Revisions of ", e.Name, "env", "history", e.Name, "--output", "wide")
	}
	revision, err := number("revision", e.Revision)
	if err != nil {
		return err
	}
	e.Revision = strconv.Itoa(int(revision))
	return r.of("Revision "+e.Revision+" of ", e.Name, "env", "rollback", e.Name, "--to-revision", e.Revision, "--dry-run=client")
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
		if w.Namespace == namespace && slices.ContainsFunc(w.Slots, func(slot overview.Slot) bool { return slot.Pod == pod }) {
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
	if err == nil && c.command == nil {
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
	text, err := c.run(r, found.args...)
	status := http.StatusOK
	if err != nil && !errors.Is(err, errTooLong) {
		status = http.StatusUnprocessableEntity
	}
	c.write(w, r, status, found.page(s, text, err), r.URL)
}

// run returns what a command prints, line by line inert.
func (c *Console) run(r *http.Request, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), commandTimeout)
	defer cancel()
	done, err := c.commands.take(ctx, userOf(r), "other requests")
	if err != nil {
		return "", err
	}
	defer done()
	out := &bounded{}
	err = c.command(ctx, out, args...)
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

// environmentCommands are the commands that change an environment by the fields of a form.
var environmentCommands = map[string]func(e *v1alpha1.Environment, form url.Values) ([]string, error){
	"scale": func(e *v1alpha1.Environment, form url.Values) ([]string, error) {
		component := form.Get("component")
		if !objectName.MatchString(component) {
			return nil, fmt.Errorf("component is %q: it must be the name of a component", inert(component))
		}
		replicas, err := number("replicas", form.Get("replicas"))
		return []string{"env", "scale", e.Name, component + "=" + strconv.Itoa(int(replicas))}, err
	},
	"rollback": func(e *v1alpha1.Environment, form url.Values) ([]string, error) {
		revision, err := number("revision", form.Get("revision"))
		return []string{"env", "rollback", e.Name, "--to-revision", strconv.Itoa(int(revision))}, err
	},
	"backup": func(e *v1alpha1.Environment, _ url.Values) ([]string, error) {
		return []string{"env", "backup-database", e.Name}, nil
	},
}
