// SPDX-License-Identifier: Apache-2.0

// Package printers has the table, the formats of -o and the phrases that all commands print.
package printers

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// Formats of -o.
const (
	Text = "table"
	Wide = "wide"
	JSON = "json"
	YAML = "yaml"
	// Name is resource/name only.
	Name = "name"
)

// Table prints rows as kubectl does. A leading column named NAMESPACE is left
// out unless several namespaces are shown.
type Table struct {
	// Wide are the columns that only -o wide has, after those of Header.
	Header, Wide []string
	Rows         [][]string
	// Names are the rows as -o name prints them.
	Names []string
	// Namespaces is set where the rows can be of several namespaces.
	Namespaces bool
}

// Add adds a row, with the cells as fmt.Sprint prints them.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.Rows = append(t.Rows, row)
}

// Write prints the table.
func (t *Table) Write(out io.Writer) error {
	first := 0
	if !t.Namespaces && t.Header[0] == "NAMESPACE" {
		first = 1
	}
	w := printers.GetNewTabWriter(out)
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		cells := make([]string, 0, len(row))
		for _, cell := range row[first:len(t.Header)] {
			// kubectl leaves no cell empty: scripts cut by columns.
			cells = append(cells, strings.ReplaceAll(cmp.Or(cell, "<none>"), "\n", " "))
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Age is how long ago a time was, as kubectl prints it.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then))
}

// Count is "1 pod", "3 pods".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Upper begins a sentence.
func Upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Listed names the first few.
func Listed(names []string) string {
	const few = 3
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// Labelled adds a value with its label to a list, unless it is empty.
func Labelled(list []string, label, value string) []string {
	if value == "" {
		return list
	}
	return append(list, label+value)
}

// InNamespace names in messages the namespace that was searched: "" is all.
func InNamespace(namespace string) string {
	if namespace == "" {
		return "any namespace"
	}
	return "namespace " + namespace
}

// Resource names an object as kubectl does: deployment.apps/web.
func Resource(kind schema.GroupVersionKind, name string) string {
	resource := strings.ToLower(kind.Kind)
	if kind.Group != "" {
		resource += "." + kind.Group
	}
	return resource + "/" + name
}

// Description prints facts as kubectl describe does, and sentences after them.
type Description struct {
	facts, sentences []string
}

// Add adds a fact, unless it is empty.
func (d *Description) Add(name, text string) {
	if text != "" {
		d.facts = append(d.facts, name+":\t"+strings.ReplaceAll(text, "\n", " "))
	}
}

// Close adds a sentence.
func (d *Description) Close(sentence string) { d.sentences = append(d.sentences, sentence) }

// Write prints the description.
func (d *Description) Write(out io.Writer) error {
	w := printers.GetNewTabWriter(out)
	if _, err := fmt.Fprintln(w, strings.Join(d.facts, "\n")); err != nil {
		return err
	}
	if err := w.Flush(); err != nil || len(d.sentences) == 0 {
		return err
	}
	_, err := fmt.Fprintln(out, "\n"+strings.Join(d.sentences, "\n"))
	return err
}
