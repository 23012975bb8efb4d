// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"
	"reflect"
	"strings"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
)

// Plan is what `plan` shows.
type Plan struct {
	Mixes     []PlannedMix      `json:"mixes"`
	Workloads []PlannedWorkload `json:"workloads"`
	Moves     []PlannedMove     `json:"moves"`
	Blocked   []BlockedPod      `json:"blocked"`
	Notes     []string          `json:"notes,omitempty"`
}

// PlannedMix is a mix as it is and as it would be.
type PlannedMix struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Action is created, changed or unchanged.
	Action string `json:"action"`
	Before string `json:"before,omitempty"`
	After  string `json:"after"`
	// Validated by the API server, in a dry run.
	Validated bool `json:"validated"`
}

// PlannedWorkload is one revision of a workload before and after.
type PlannedWorkload struct {
	Namespace string         `json:"namespace"`
	Kind      string         `json:"kind"`
	Name      string         `json:"name"`
	Revision  string         `json:"revision,omitempty"`
	Source    string         `json:"source"`
	Replicas  int            `json:"replicas"`
	Actual    overview.Split `json:"actual"`
	// DesiredBefore is by the mix of now, nil for a workload without one.
	DesiredBefore *overview.Split `json:"desiredBefore,omitempty"`
	Desired       overview.Split  `json:"desired"`
	// WrongSide is how many replicas have to move, Moves how many would.
	WrongSide int            `json:"wrongSide"`
	Moves     int            `json:"moves"`
	Blocked   int            `json:"blocked"`
	After     overview.Split `json:"after"`
	bare      bool
}

// PlannedMove is a replica that would move.
type PlannedMove struct {
	Order     int    `json:"order"`
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Pod       string `json:"pod"`
	From      string `json:"from"`
	To        string `json:"to"`
	Slot      int    `json:"slot"`
	// Node has free capacity for the replacement; "" if that was not checked.
	Node string `json:"node,omitempty"`
}

// BlockedPod is a replica that should move and would not.
type BlockedPod struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Pod       string `json:"pod"`
	On        string `json:"on"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

func planOf(before map[string]overview.Split, c *live.Cluster, wanted []*wantedMix, r *changes) *Plan {
	p := &Plan{Mixes: []PlannedMix{}, Workloads: []PlannedWorkload{}, Moves: []PlannedMove{}, Blocked: []BlockedPod{}}
	for _, w := range wanted {
		p.Mixes = append(p.Mixes, plannedMix(w))
		if w.unvalidated != "" {
			p.Notes = append(p.Notes, fmt.Sprintf("CapacityMix %s/%s was not validated by the API server: %s", w.mix.Namespace, w.mix.Name,
				w.unvalidated))
		}
	}
	for i := range r.Outcomes {
		p.addOutcome(before, &r.Outcomes[i])
	}
	for _, s := range r.Shifts {
		p.Notes = append(p.Notes, shiftNote(s))
	}
	for _, o := range r.Overruled {
		p.Notes = append(p.Notes, overruledNote(c, o))
	}
	for i := range r.Outcomes {
		p.Notes = append(p.Notes, outcomeNotes(c, &r.Outcomes[i])...)
	}
	return p
}

func plannedMix(w *wantedMix) PlannedMix {
	out := PlannedMix{Namespace: w.mix.Namespace, Name: w.mix.Name, Action: "created", After: ruleOf(w.mix), Validated: w.unvalidated == ""}
	if w.old != nil {
		out.Action, out.Before = "changed", ruleOf(w.old)
		if reflect.DeepEqual(w.old.Spec, w.mix.Spec) {
			out.Action = "unchanged"
		}
	}
	return out
}

func (p *Plan) addOutcome(before map[string]overview.Split, o *plan.Outcome) {
	g := &o.Before
	w := PlannedWorkload{
		Namespace: g.Workload.Namespace, Kind: g.Workload.Kind, Name: g.Workload.Name, Revision: g.Workload.Revision,
		Source:   g.Governing.Source,
		Replicas: g.Replicas, Actual: overview.Actual(g), Desired: overview.Desired(g), WrongSide: o.Wrong, Moves: len(o.Moves),
		Blocked: len(o.Blocked), After: overview.Actual(&o.After), bare: g.Workload.UID == "",
	}
	if d, ok := before[groupName(g)]; ok {
		w.DesiredBefore = &d
	}
	p.Workloads = append(p.Workloads, w)
	workload := tableName(w.Kind, w.Name, w.bare)
	for i, m := range o.Moves {
		p.Moves = append(p.Moves, PlannedMove{
			Order: i + 1, Namespace: w.Namespace, Workload: workload,
			Pod: m.Pod.Name, From: m.From.String(), To: m.To.String(), Slot: m.Slot, Node: m.Node,
		})
	}
	for _, b := range o.Blocked {
		p.Blocked = append(p.Blocked, BlockedPod{
			Namespace: w.Namespace, Workload: workload, Pod: b.Pod.Name, On: b.On.String(), Reason: b.Reason.Name, Message: b.Message,
		})
	}
}

func shiftNote(s shift) string {
	pods := podsOf(s.Pods, s.Workload) + " in namespace " + s.Namespace
	switch {
	case s.From == "":
		return fmt.Sprintf("newly governed: %s, by %s", pods, s.To)
	case s.To == "":
		return fmt.Sprintf("no longer governed: %s, until now by %s", pods, s.From)
	}
	return fmt.Sprintf("governed by another mix: %s, by %s instead of %s", pods, s.To, s.From)
}

// podsOf is "3 pods of Deployment/web", or a pod without a controller by its name.
func podsOf(n int, workload string) string {
	if name, bare := strings.CutPrefix(workload, "Pod/"); bare {
		return "pod " + name
	}
	return printers.Count(n, "pod") + " of " + workload
}

// overruledNote names what takes precedence over a mix, and why.
func overruledNote(c *live.Cluster, o overruled) string {
	why := "annotations have precedence over every CapacityMix"
	if other, ok := strings.CutPrefix(o.By, governing.SourceCapacityMix); ok {
		why = "the oldest CapacityMix has precedence"
		if m := c.Mix(o.Namespace, other); m != nil {
			why += ", " + other + " is from " + m.CreationTimestamp.UTC().Format("2006-01-02")
		}
	}
	return fmt.Sprintf("conflict: CapacityMix %s selects %s in namespace %s, which %s governs (%s)", o.Mix, podsOf(o.Pods, o.Workload),
		o.Namespace, live.SourceText(o.By), why)
}

// outcomeNotes describe what delays the moves of a workload.
func outcomeNotes(c *live.Cluster, o *plan.Outcome) []string {
	var out []string
	for _, v := range o.Waits {
		out = append(out, fmt.Sprintf("moves of %s wait: %s (%s)", o.Before.Workload, v.Message, v.Reason))
	}
	m := c.MixOf(o.Before.Workload.Namespace, o.Before.Governing)
	if settings, err := live.RebalanceSettings(nil, m); err == nil && settings.Mode == rebalance.Report && len(o.Moves) > 0 {
		out = append(out, fmt.Sprintf("%s: rebalance.mode is Report, so the moves are only reported", o.Before.Workload))
	}
	if pending, departing, _ := o.After.Counts(); pending+departing > 0 {
		out = append(out, fmt.Sprintf("%s: %s pending or on departing nodes, which take the type of their slots without a move",
			o.Before.Workload, printers.Count(pending+departing, "replica")))
	}
	return out
}

func showPlan(o *command.Options, p *Plan) error {
	if done, err := o.Print(p); done {
		return err
	}
	namespaces := false
	for _, m := range p.Mixes {
		namespaces = namespaces || m.Namespace != p.Mixes[0].Namespace
		fmt.Fprintln(o.Out, m.sentence())
	}
	for _, t := range []*printers.Table{p.workloadTable(), p.moveTable(), p.blockedTable()} {
		if t.Namespaces = namespaces; len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintln(o.Out)
		if err := t.Write(o.Out); err != nil {
			return err
		}
	}
	fmt.Fprintln(o.Out)
	for _, n := range p.Notes {
		fmt.Fprintln(o.Out, printers.Upper(n)+".")
	}
	_, err := fmt.Fprintln(o.Out, p.summary())
	return err
}

func (m PlannedMix) sentence() string {
	name := fmt.Sprintf("CapacityMix %s/%s", m.Namespace, m.Name)
	switch m.Action {
	case "created":
		return fmt.Sprintf("%s would be created: %s.", name, m.After)
	case "unchanged":
		return fmt.Sprintf("%s would not change: %s.", name, m.After)
	}
	if m.Before == m.After {
		return fmt.Sprintf("%s would change, its split would not: %s.", name, m.After)
	}
	return fmt.Sprintf("%s would change from %s to %s.", name, m.Before, m.After)
}

func (p *Plan) workloadTable() *printers.Table {
	t := &printers.Table{Header: []string{
		"NAMESPACE", "WORKLOAD", "REVISION", "REPLICAS", "ACTUAL", "DESIRED-NOW", "DESIRED-THEN",
		"TO-MOVE", "MOVES", "BLOCKED", "AFTER",
	}}
	for _, w := range p.Workloads {
		now := ""
		if w.DesiredBefore != nil {
			now = w.DesiredBefore.String()
		}
		t.Add(w.Namespace, tableName(w.Kind, w.Name, w.bare), w.Revision, w.Replicas, w.Actual, now, w.Desired, w.WrongSide, w.Moves,
			w.Blocked, w.After)
	}
	return t
}

func (p *Plan) moveTable() *printers.Table {
	t := &printers.Table{Header: []string{"NAMESPACE", "MOVE", "WORKLOAD", "POD", "FROM", "TO", "SLOT", "NODE"}}
	for _, m := range p.Moves {
		t.Add(m.Namespace, m.Order, m.Workload, m.Pod, m.From, m.To, m.Slot, m.Node)
	}
	return t
}

func (p *Plan) blockedTable() *printers.Table {
	t := &printers.Table{Header: []string{"NAMESPACE", "BLOCKED", "WORKLOAD", "ON", "REASON", "MESSAGE"}}
	for _, b := range p.Blocked {
		t.Add(b.Namespace, b.Pod, b.Workload, b.On, b.Reason, b.Message)
	}
	return t
}

func (p *Plan) summary() string {
	return fmt.Sprintf("%s, %d blocked. Nothing was written.", printers.Count(len(p.Moves), "move"), len(p.Blocked))
}
