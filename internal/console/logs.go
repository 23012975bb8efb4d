// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"io"
	"net/url"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// logReport is the log of an environment or of a pod: of all that write into it, or of one.
type logReport struct {
	// Parameter has the name of the one in the URL, and Label is its name in the form. Of is the one, "" for all.
	Parameter, Label, Of string
	// Choices are those that there are.
	Choices []string
	choices func(*state) []string
	// write writes the last lines and, with follow, those that come.
	write func(follow bool) write
}

// mostChoices bounds the containers of a pod that a form has.
const mostChoices = 100

// logOf completes the report of a log.
func logOf(r *report, title string, l *logReport, q url.Values) error {
	if l.Of = q.Get(l.Parameter); l.Of != "" && !isName(l.Of) {
		return fmt.Errorf("%s is %q: it must be the name of a %s", l.Parameter, inert(l.Of), l.Parameter)
	}
	r.log = l
	return r.of("Logs of "+title, l.write(false))
}

// logsOf is the log of an environment.
func logsOf(r *report, object []string, q url.Values) error {
	l := &logReport{Parameter: "component", Label: "Component"}
	l.choices = func(s *state) []string { return componentsOf(s, object) }
	l.write = func(follow bool) write {
		return func(ctx context.Context, reports Reports, out io.Writer) error {
			return reports.Logs(ctx, out, keyOf(object), l.Of, tailLines, follow)
		}
	}
	return logOf(r, object[1], l, q)
}

// componentsOf are the names of the components of an environment, as it reports them.
func componentsOf(s *state, object []string) (names []string) {
	if s.Reading == nil {
		return nil
	}
	e, err := environmentList.find(object, s)
	if err != nil {
		return nil
	}
	for i := range e.Status.Components {
		names = append(names, e.Status.Components[i].Name)
	}
	return names
}

// podLogs is the log of a pod. Its containers are read with the rights of the user: a reading of the cluster has none.
func podLogs(r *report, object []string, q url.Values) error {
	var containers []string
	l := &logReport{Parameter: "container", Label: "Container"}
	l.choices = func(*state) []string { return containers }
	l.write = func(follow bool) write {
		return func(ctx context.Context, reports Reports, out io.Writer) (err error) {
			pod := client.ObjectKey{Namespace: object[0], Name: object[1]}
			if !follow {
				if containers, err = reports.Containers(ctx, pod); err != nil {
					return err
				}
				containers = containers[:min(len(containers), mostChoices)]
			}
			return reports.PodLogs(ctx, out, pod, l.Of, tailLines, follow)
		}
	}
	return logOf(r, "pod "+object[1], l, q)
}
