// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/policies/decision"
)

// Write prints records, each with what was decided and a table, with an empty line before each.
func Write(out io.Writer, records []*decision.Record, now time.Time) error {
	for _, r := range records {
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
		if err := write(out, r, now); err != nil {
			return err
		}
	}
	return nil
}

func write(out io.Writer, r *decision.Record, now time.Time) error {
	d := &printers.Description{}
	d.Add("Attempt", r.ID)
	d.Add("Time", fmt.Sprintf("%s (%s ago)", r.Time.UTC().Format(time.RFC3339), printers.Age(now, r.Time)))
	d.Add("Outcome", strings.TrimSuffix(string(r.Outcome)+": "+r.Message, ": "))
	d.Add("Node", r.Node)
	d.Add("Reservation", r.Reservation)
	d.Add("Policy", cmp.Or(r.Policy, "<none>: the default policy of profile "+r.SchedulerName))
	if r.Feasible > 0 {
		d.Add("Feasible", feasible(r))
	}
	d.Add("Tie-breaker", r.TieBreaker)
	if r.TieBreaker != "" {
		d.Add("Tied", printers.Count(r.Tied, "node"))
	}
	if err := d.Write(out); err != nil {
		return err
	}
	for _, t := range []*printers.Table{candidates(r), rejections(r)} {
		if len(t.Rows) == 0 {
			continue
		}
		if _, err := fmt.Fprintln(out); err != nil {
			return err
		}
		if err := t.Write(out); err != nil {
			return err
		}
	}
	return nil
}

// feasible is the number of feasible nodes, and how many of them are in the table.
func feasible(r *decision.Record) string {
	text := printers.Count(r.Feasible, "node")
	if n := len(r.Candidates); n > 0 && n < r.Feasible {
		text += fmt.Sprintf(", the best %d are recorded", n)
	}
	return text
}

// candidates is the table of scores.
func candidates(r *decision.Record) *printers.Table {
	t := &printers.Table{Header: []string{"NODE", "SCORE"}}
	for _, f := range r.Functions {
		t.Header = append(t.Header, f.Name+"*"+number(f.Coefficient))
	}
	demoted := slices.ContainsFunc(r.Candidates, func(c decision.Candidate) bool { return c.Demoted != "" })
	if demoted {
		t.Header = append(t.Header, "DEMOTED")
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		row := []string{c.Node, number(c.Score)}
		for f := range r.Functions {
			value := ""
			if f < len(c.Values) {
				value = number(c.Values[f])
			}
			row = append(row, value)
		}
		if demoted {
			row = append(row, c.Demoted)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// number has two decimals at most.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// rejections is the table of the reasons for which nodes were rejected.
func rejections(r *decision.Record) *printers.Table {
	t := &printers.Table{Header: []string{"REASON", "NODES", "EXAMPLE", "DETAIL"}}
	for i := range r.Rejections {
		n := &r.Rejections[i]
		t.Add(n.Reason, n.Nodes, n.Example, detail(n))
	}
	return t
}

// detail is what a rejection has beyond its reason.
func detail(n *decision.Rejection) string {
	switch {
	case n.Requested != "":
		return fmt.Sprintf("requested %s, at most %s available on one node", n.Requested, cmp.Or(n.Available, "0"))
	case n.Key != "":
		return "taint " + n.Key
	}
	return n.Message
}
