// SPDX-License-Identifier: Apache-2.0

package savings

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"berth.dev/berth/internal/kube/display"
)

// Monthly is an amount an hour as dollars a month.
func Monthly(amount float64) string { return dollars(amount*HoursPerMonth, 2) }

// Hourly is an amount an hour, with more decimals where it is less than a dollar.
func Hourly(amount float64) string {
	if amount > -1 && amount < 1 {
		return dollars(amount, 4)
	}
	return dollars(amount, 2)
}

func dollars(amount float64, decimals int) string {
	if amount < 0 {
		return "-" + dollars(-amount, decimals)
	}
	return "$" + strconv.FormatFloat(amount, 'f', decimals, 64)
}

// Percent is an amount in percent of a whole that is not 0.
func Percent(amount, of float64) string { return fmt.Sprintf("%.0f%%", 100*amount/of) }

// Summary is what is saved in a sentence, "" where nothing has a price.
func (r *Report) Summary() string {
	t := &r.Total
	if t.AllOnDemand <= 0 {
		return ""
	}
	return fmt.Sprintf("Saved: %s a month, %s of %s on on-demand nodes. Available: %s more. Price of the floor: %s.",
		Monthly(t.Saved), Percent(t.Saved, t.AllOnDemand), Monthly(t.AllOnDemand), Monthly(t.Available), Monthly(t.Floor))
}

// Notes are what the figures are made of, a sentence each.
func (r *Report) Notes(now time.Time) (lines []string) {
	for i := range r.Sources {
		s := &r.Sources[i]
		line := fmt.Sprintf("Prices of %s: %s, %s", display.Count(s.Pods, "pod"), s.Name, s.Date.Format(time.DateOnly))
		if s.Date.Before(now) {
			line += ", " + display.Age(now, s.Date) + " old"
		}
		if s.Estimated {
			line += ": an estimate"
		}
		lines = append(lines, line+".")
	}
	if n := r.Total.Reserved; n > 0 {
		lines = append(lines, display.Clause(n, "pod", "runs", "run")+" on reserved capacity, which is paid for also without them.")
	}
	for _, u := range r.Unpriced {
		lines = append(lines, fmt.Sprintf("No price of %s: %s.", display.Count(u.Pods, "pod"), u.Reason))
	}
	return lines
}

// WriteCSV writes the rows for a spreadsheet, with amounts an hour.
func (r *Report) WriteCSV(out io.Writer) error {
	rows := [][]string{{
		"namespace", "kind", "name", "revision", "role", "mix", "unit", "replicas", "pods", "priced", "reserved",
		"cost", "allOnDemand", "saved", "available", "floor", "estimate",
	}}
	for i := range r.Rows {
		w := &r.Rows[i]
		cells := []string{w.Namespace, w.Kind, w.Name, w.Revision, w.Role, w.Mix, w.Unit}
		for _, n := range []int{w.Replicas, w.Pods, w.Priced, w.Reserved} {
			cells = append(cells, strconv.Itoa(n))
		}
		for _, amount := range []float64{w.Cost, w.AllOnDemand, w.Saved, w.Available, w.Floor} {
			cells = append(cells, strconv.FormatFloat(amount, 'f', 6, 64))
		}
		rows = append(rows, append(cells, strconv.FormatBool(r.Estimate())))
	}
	return csv.NewWriter(out).WriteAll(rows)
}
