// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"slices"
)

// tableView is a table of a page. All texts in it are inert.
type tableView struct {
	Header []string
	Rows   [][]string
}

func newTable(header ...string) tableView { return tableView{Header: header} }

// add adds a row, with the cells as fmt.Sprint prints them.
func (t *tableView) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = inert(fmt.Sprint(c))
	}
	t.Rows = append(t.Rows, row)
}

// withRows are the tables that have rows.
func withRows(all ...tableView) []tableView {
	return slices.DeleteFunc(all, func(t tableView) bool { return len(t.Rows) == 0 })
}

func allInert(texts []string) (out []string) {
	for _, t := range texts {
		out = append(out, inert(t))
	}
	return out
}
