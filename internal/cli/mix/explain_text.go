// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/rebalance"
)

// sentences are the explanation in plain words, one fact a line.
func (e *Explanation) sentences(now time.Time) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !e.Governed {
		say("No mix governs pod %s/%s.", e.Namespace, e.Pod)
		out = append(out, e.Why...)
		return slices.Concat(out, e.Gate.sentences(), e.Node.sentences(), e.Limit.sentences())
	}
	say("Pod %s/%s is governed by %s: %s.", e.Namespace, e.Pod, live.SourceText(e.Mix.Source), e.Mix.Rule)
	for _, i := range e.Mix.InvalidAnnotations {
		say("Not counted: %s.", i)
	}
	out = append(out, e.Why...)
	if w := e.Workload; w != nil {
		state := "it satisfies its mix"
		if !w.Satisfied {
			state = "it does not have its mix"
		}
		say("It belongs to %s, %s: wanted are %s, there are %s; %s.", w.Name, printers.Count(w.Replicas, "replica"), w.Desired.Words(), w.Actual.Words(), state)
	}
	out = append(out, e.Gate.sentences()...)
	if s := e.Slot; s != nil {
		say("It has slot %d, %s. That slot is %s.", s.Number, slotText(s.From), s.Type)
	}
	out = slices.Concat(out, e.Node.sentences(), e.Limit.sentences())
	if p := e.Pending; p != nil {
		out = append(out, p.sentences()...)
	}
	if b := e.Borrowed; b != nil {
		since := "since"
		if b.By != "Event" {
			since = "since it started,"
		}
		say("It is borrowed, %s %s (%s ago): %s.", since, b.Since.UTC().Format(time.RFC3339), printers.Age(now, b.Since.Time), b.Why)
	}
	if e.Move != nil {
		out = append(out, e.Move.sentences()...)
	}
	if e.Deletion != "" {
		out = append(out, e.Deletion)
	}
	return out
}

func slotText(from string) string {
	switch from {
	case "identity":
		return "which comes with its ordinal or index"
	case "gate":
		return "which the scheduler will give it if nothing else changes: the lowest that is free"
	case "annotation":
		return "which the scheduler wrote on it"
	case "scheduler":
		return "which the scheduler tried last"
	}
	return "by its age among the pods of its group: the scheduler has written none on it"
}

func (n *NodeFacts) sentences() []string {
	if n == nil {
		return nil
	}
	text := fmt.Sprintf("It runs on node %s, which is %s by rule %s (%s).", n.Name, n.Type, n.Rule, n.Label)
	if n.Rule == "" {
		text = fmt.Sprintf("It runs on node %s, whose type is not known: no rule fits its labels (see docs/node-types.md).", n.Name)
	}
	if n.Departing != "" {
		return []string{text, fmt.Sprintf("The node is going away (%s): the replacement of the pod takes a slot of its own.", n.Departing)}
	}
	return []string{text}
}

func (p *PendingFacts) sentences() []string {
	out := []string{fmt.Sprintf("It is pending, and waits for a node of type %s.", p.WaitsFor)}
	switch {
	case p.Message != "":
		out = append(out, fmt.Sprintf("The scheduler says: %s: %s", p.Reason, p.Message))
	case p.Reason != "":
		out = append(out, fmt.Sprintf("The scheduler says: %s", p.Reason))
	default:
		out = append(out, "No scheduler has said anything about it yet.")
	}
	return out
}

func (m *MoveFacts) sentences() []string {
	if m.Reason == string(rebalance.ReasonOnTarget) {
		if m.WorkloadReason == string(rebalance.ReasonOnTarget) {
			return []string{"Nothing would move it: its workload satisfies its mix."}
		}
		return []string{fmt.Sprintf("Nothing would move it: other replicas of its workload go first (%s: %s).", m.WorkloadReason, m.WorkloadMessage)}
	}
	out := []string{fmt.Sprintf("It should move, and does not: %s (%s).", strings.TrimSuffix(m.Message, "."), m.Reason)}
	if m.Reason == string(rebalance.ReasonMove) {
		out[0] = "The controller would move it: " + m.Message
		if m.Node != "" {
			out[0] += ", node " + m.Node + " has room"
		}
		out[0] += "."
	}
	if m.Controller == live.ReportAbsent || m.Controller == live.ReportStale {
		out = append(out, "But no controller seems to run: its mix has no current status (see kubectl berth doctor).")
	}
	return out
}
