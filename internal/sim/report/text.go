// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Text writes a table of the runs, in the format of kubectl, and what the policies and the figures are.
func Text(w io.Writer, r *Result) error {
	tabs := tabwriter.NewWriter(w, 6, 4, 3, ' ', 0) // the widths of kubectl
	for _, row := range table(r.Runs) {
		if _, err := fmt.Fprintln(tabs, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	if err := tabs.Flush(); err != nil {
		return err
	}
	lines := []string{"", r.head()}
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Description != "" {
			lines = append(lines, name(run.Policy)+": "+sentence(run.Description))
		}
	}
	for _, note := range r.Notes {
		lines = append(lines, sentence(note))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
