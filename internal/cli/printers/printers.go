// SPDX-License-Identifier: Apache-2.0

// Package printers has the table, the formats of -o and the phrases that all commands print.
package printers

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"

	"berth.dev/berth/internal/kube/display"
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
	// Keys is how many of the first columns identify a row, 0 for the namespace and the name.
	Keys int
}

// KeyColumns is how many of the first columns identify a row.
func (t *Table) KeyColumns() int {
	switch {
	case t.Keys > 0:
		return t.Keys
	case t.Header[0] == "NAMESPACE":
		return 2
	}
	return 1
}

// NameOf names a row in a sentence.
func (t *Table) NameOf(row []string) string {
	if t.Header[0] != "NAMESPACE" {
		return row[0]
	}
	return strings.TrimPrefix(row[0]+"/", "/") + row[1]
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
	return t.Lines(out).Write(append([][]string{t.Header}, t.Rows...))
}

// Lines are rows of a table that are printed bit by bit. The columns keep their width.
type Lines struct {
	w interface {
		io.Writer
		Flush() error
	}
	first, last int
}

// Lines prints rows of the table.
func (t *Table) Lines(out io.Writer) *Lines {
	l := &Lines{w: printers.GetNewTabWriter(out), last: len(t.Header)}
	if !t.Namespaces && t.Header[0] == "NAMESPACE" {
		l.first = 1
	}
	return l
}

// Write prints rows.
func (l *Lines) Write(rows [][]string) error {
	for _, row := range rows {
		cells := make([]string, 0, len(row))
		for _, cell := range row[l.first:l.last] {
			// kubectl leaves no cell empty: scripts cut by columns.
			cells = append(cells, strings.ReplaceAll(cmp.Or(cell, "<none>"), "\n", " "))
		}
		if _, err := fmt.Fprintln(l.w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return l.w.Flush()
}

// Words that the pages of the console have, too.
var (
	Age    = display.Age
	Count  = display.Count
	Upper  = display.Upper
	Listed = display.Listed
)

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

// Description is printed as kubectl describe does.
type Description struct{ display.Description }

// Write prints the description.
func (d *Description) Write(out io.Writer) error {
	w := printers.GetNewTabWriter(out)
	for _, f := range d.Facts {
		if _, err := fmt.Fprintln(w, f.Name+":\t"+f.Value); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil || len(d.Sentences) == 0 {
		return err
	}
	_, err := fmt.Fprintln(out, "\n"+strings.Join(d.Sentences, "\n"))
	return err
}
