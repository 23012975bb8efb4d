// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/rebalance"
)

// Describe returns the facts, and then why it is so.
func (e *Explanation) Describe(now time.Time) *display.Description {
	d := &display.Description{}
	d.Add("Name", e.Pod)
	d.Add("Namespace", e.Namespace)
	if w := e.Workload; w != nil {
		d.Add("Workload", fmt.Sprintf("%s, %s", w.Name, e.Group.replicas(w.Replicas)))
	}
	if m := e.Mix; m != nil {
		d.Add("Mix", SourceText(m.Source)+": "+m.Rule)
		d.Add("Ignored", strings.Join(m.InvalidAnnotations, "; "))
	} else {
		d.Add("Mix", "<none>")
	}
	if s := e.Slot; s != nil {
		d.Add("Slot", fmt.Sprintf("%d, %s (%s)", s.Number, s.Type, slotText(s.From)))
	}
	if w := e.Workload; w != nil {
		d.Add("Desired", w.Desired.Words())
		d.Add("Actual", Part(w.Actual, Split.Words).Text())
		satisfied := "True"
		switch {
		case w.Satisfied.Unknown():
			satisfied = display.Unknown
		case w.Satisfied.Is(false):
			satisfied = "False (" + w.state + ")"
		}
		d.Add("Satisfied", satisfied)
	}
	for _, f := range e.Domains {
		d.Add("Max per domain", f.String())
	}
	d.Add("Interrupted domains", e.Interrupted.text())
	d.Add("Scheduling gate", e.Gate.text())
	e.Node.describe(d)
	e.Pending.describe(d)
	e.Borrowed.describe(d, now)
	e.Move.describe(d)
	e.Limit.describe(d)
	d.Add("Scale-down", e.Deletion)
	if why := e.Group.sentence(); why != "" {
		d.Sentences = append(d.Sentences, why)
	}
	d.Sentences = slices.Concat(d.Sentences, e.Why, e.reason(), e.Limit.reasons())
	return d
}

// reason is one sentence about what keeps a governed pod where it is, or what would move it.
func (e *Explanation) reason() []string {
	switch {
	case !e.Governed:
		return nil
	case e.Gate != nil && e.Gate.State == gateWaiting && slices.ContainsFunc(e.Domains, DomainFacts.holds):
		return []string{"The pod waits until the leading berth-scheduler assigns its slot, which it does not while other pods of the group " +
			"have no node yet that could fill the domains of the pod (maxPerDomain)."}
	case e.Gate != nil && e.Gate.State == gateWaiting:
		return []string{"The pod waits until the leading berth-scheduler assigns its slot."}
	case e.Pending != nil:
		return []string{fmt.Sprintf("The pod waits for %s node.", article(e.Pending.WaitsFor))}
	case e.Move != nil:
		return e.Move.reason(e.Workload.Satisfied.Is(true))
	case e.Node != nil && e.Node.Type.Unknown():
		return []string{"Whether the pod is on a node of the type of its slot is unknown, because the nodes could not be read."}
	}
	return nil
}

// article is "a spot", "an on-demand".
func article(word string) string {
	if strings.ContainsAny(word[:1], "aeiou") {
		return "an " + word
	}
	return "a " + word
}

func slotText(from string) string {
	switch from {
	case "identity":
		return "its ordinal or index determines it"
	case "gate":
		return "the lowest free slot, which the scheduler assigns if nothing else changes"
	case "annotation":
		return "recorded by the scheduler"
	case "scheduler":
		return "the slot that the scheduler tried last"
	}
	return "by age among the pods of its group: the scheduler recorded none"
}

func (n *NodeFacts) describe(d *display.Description) {
	if n == nil {
		return
	}
	text := fmt.Sprintf("%s, %s (rule %s, %s)", n.Name, n.Type, n.Rule, n.Label)
	switch {
	case n.Type.Unknown():
		text = n.Name + ", type " + display.Unknown
	case n.Rule == "":
		text = n.Name + ", unknown type (no rule matches its labels, see docs/node-types.md)"
	}
	d.Add("Node", text)
	if n.Departing != "" {
		d.Add("Departing", n.Departing+": the replacement of the pod takes a slot of its own")
	}
}

func (p *PendingFacts) describe(d *display.Description) {
	if p == nil {
		return
	}
	d.Add("Pending", "requires a node of type "+p.WaitsFor)
	d.Add("Scheduler", cmp.Or(strings.TrimSuffix(p.Reason+": "+p.Message, ": "), "<no message yet>"))
}

func (b *BorrowFacts) describe(d *display.Description, now time.Time) {
	if b == nil {
		return
	}
	since := "since "
	if b.By != "Event" {
		since = "since it started at "
	}
	d.Add("Borrowed", fmt.Sprintf("%s%s (%s ago): %s", since, b.Since.UTC().Format(time.RFC3339), display.Age(now, b.Since.Time), b.Why))
}

func (m *MoveFacts) describe(d *display.Description) {
	switch {
	case m == nil, m.Reason == rebalance.ReasonOnTarget.Name:
	case m.Reason == rebalance.ReasonMove.Name:
		text := m.Message
		if m.Node != "" {
			text += ", node " + m.Node + " has capacity"
		}
		d.Add("Next step", text)
	default:
		d.Add("Blocked", m.Reason+": "+strings.TrimSuffix(m.Message, "."))
	}
}

func (m *MoveFacts) reason(satisfied bool) []string {
	var out []string
	switch {
	case m.Departs:
		return []string{fmt.Sprintf("The node of the pod departs, and no replica of its workload is moved: %s.",
			strings.TrimSuffix(m.Message, "."))}
	case satisfied:
		return []string{"The pod stays on its node because its workload satisfies its mix."}
	case m.Reason == rebalance.ReasonOnTarget.Name && m.WorkloadReason == rebalance.ReasonOnTarget.Name:
		return []string{"The pod stays on its node because no replica of its workload has to be moved."}
	case m.Reason == rebalance.ReasonOnTarget.Name:
		return []string{fmt.Sprintf("The pod stays on its node because other replicas of its workload are moved first (%s: %s).",
			m.WorkloadReason, m.WorkloadMessage)}
	case m.Reason == rebalance.ReasonMove.Name:
		out = append(out, "The controller would move the pod.")
	default:
		out = append(out, fmt.Sprintf("The pod should be moved, but it is not: %s.", strings.TrimSuffix(m.Message, ".")))
	}
	if m.Controller == display.ReportAbsent || m.Controller == display.ReportStale {
		out = append(out, "The mix has no current status, so berth-controller does not seem to run (see kubectl berth doctor).")
	}
	return out
}
