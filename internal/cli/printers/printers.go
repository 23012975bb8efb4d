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
