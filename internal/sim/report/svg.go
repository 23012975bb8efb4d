// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
)

// Comparison writes the picture of cost and missing replicas of all runs as an SVG file. It is an error if no run has a known cost.
func Comparison(w io.Writer, r *Result) error {
	front := Front(r.Runs)
	if len(front) == 0 {
		return errors.New("no run has a known cost, so none is drawn")
	}
	m := newMarkup(w)
	m.alone = true
	m.drawComparison(r.Runs, front)
	return m.w.Flush()
}

// Timeline writes the picture of the Ready replicas of a run as an SVG file.
func Timeline(w io.Writer, r *Result, policy string) error {
	for i := range r.Runs {
		if run := &r.Runs[i]; run.Policy == policy && len(run.Series) > 0 {
			m := newMarkup(w)
			m.alone = true
			m.drawTimeline(i, run, r.Seconds)
			return m.w.Flush()
		}
	}
	return fmt.Errorf("no run of policy %q has a series", policy)
}
