// SPDX-License-Identifier: Apache-2.0

// Package show prints the structures that several commands and the console share.
package show

import (
	"cmp"
	"fmt"
	"time"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/decisions"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
)

// Explanation prints an explanation in the requested format.
func Explanation(o *command.Options, e *overview.Explanation) error {
	if done, err := o.Print(e); done {
		return err
	}
	if err := (&printers.Description{Description: *e.Describe(o.Now())}).Write(o.Out); err != nil {
		return err
	}
	return decisions.Write(o.Out, e.Decisions, o.Now())
}

// Nodes prints the nodes, and sums by type.
func Nodes(o *command.Options, n *overview.Nodes) error {
	if done, err := o.Print(n); done {
		return err
	}
	if len(n.Nodes) == 0 {
		if n.Known > 0 {
			o.Note("No node of unknown type found: the type of %s is known.", printers.Count(n.Known, "node"))
			return nil
		}
		o.Note("No nodes found.")
		return nil
	}
	t := &printers.Table{
		Header: []string{"NAME", "TYPE", "RULE", "DOMAIN", "DEPARTING", "ACCEPTS", "PODS"}, Wide: []string{"ZONE", "INSTANCE-TYPE", "AGE"},
	}
	for _, s := range n.Nodes {
		t.Names = append(t.Names, "node/"+s.Name)
		t.Add(s.Name, s.Type, s.Rule, s.Domain, s.Departing, s.Accepts, s.Pods, s.Zone, s.InstanceType, o.Age(s.Created))
	}
	if o.Output == printers.Name {
		o.PrintNames(t)
		return nil
	}
	sums := &printers.Table{Header: []string{"TYPE", "NODES", "ACCEPTING", "DEPARTING", "PODS"}}
	for _, s := range n.Totals {
		sums.Add(s.Type, s.Nodes, s.Accepting, s.Departing, s.Pods)
	}
	if err := o.WriteTables(nil, t, sums); err != nil {
		return err
	}
	if n.Hint != "" {
		o.Hint(printers.Upper(n.Hint) + ".")
	}
	return nil
}

// Domains prints the interruption domains.
func Domains(o *command.Options, d *overview.Domains) error {
	t := &printers.Table{Header: []string{"DOMAIN", "NODES", "DEPARTING", "PODS", "SHARE%", "INTERRUPTIONS", "QUARANTINE-UNTIL"}}
	for i := range d.Domains {
		s := &d.Domains[i]
		t.Names = append(t.Names, s.Domain)
		t.Add(s.Domain, s.Nodes, s.Departing, s.Replicas, s.SharePercent, s.Interruptions, s.Quarantine())
	}
	return o.PrintList(d, t, "No spot nodes with an interruption domain found.")
}

// History prints the history of a record, or of another kind.
func History(o *command.Options, h *overview.History) error {
	h.Sort()
	t := &printers.Table{Header: []string{"TIME", "AGE", "TYPE", "REASON", "FROM", "MESSAGE"}}
	for i := range h.Entries {
		e := &h.Entries[i]
		ago := o.Age(e.Time)
		if e.Count > 1 {
			ago += fmt.Sprintf(" (x%d over %s)", e.Count, o.Age(*e.First))
		}
		t.Add(e.Time.UTC().Format(time.RFC3339), ago, e.Type, e.Reason, e.From, e.Message)
	}
	if len(h.Refusals) > 0 && o.ForPeople() {
		refused := &printers.Table{Header: []string{"NOT-MOVED", "COUNT", "FIRST", "LAST", "MESSAGE"}}
		for i := range h.Refusals {
			r := &h.Refusals[i]
			refused.Add(r.Reason, r.Count, o.Age(r.First), o.Age(r.Last), r.Message)
		}
		return o.WriteTables(nil, t, refused)
	}
	return o.PrintList(h, t, fmt.Sprintf("No events found for %s %s/%s. The cluster keeps events for a limited time.",
		cmp.Or(h.Kind, "DeploymentRecord"), h.Namespace, h.Name))
}
