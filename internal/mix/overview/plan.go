// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// MixChange is a CapacityMix as it would be.
type MixChange struct {
	// Then is what the API server would make of it; Now what is there, nil if nothing.
	Then, Now *v1alpha1.CapacityMix
	// Unvalidated is why the API server did not judge it.
	Unvalidated string
}

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
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Revision  string `json:"revision,omitempty"`
	Parts     `json:",inline"`
	Source    string `json:"source"`
	Replicas  int    `json:"replicas"`
	Actual    Split  `json:"actual"`
	// DesiredBefore is by the mix of now, nil for a workload without one.
	DesiredBefore *Split `json:"desiredBefore,omitempty"`
	Desired       Split  `json:"desired"`
	// WrongSide is how many replicas have to move, Moves how many would.
	WrongSide int   `json:"wrongSide"`
	Moves     int   `json:"moves"`
	Blocked   int   `json:"blocked"`
	After     Split `json:"after"`
	// Bare is set for the pods of a mix that have no controller.
	Bare bool `json:"-"`
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
	// Unit is the unit that moves as a whole, "" for a pod, and Pods are all of its pods with the nodes for their replacements.
	Unit string    `json:"unit,omitempty"`
	Pods []UnitPod `json:"pods,omitempty"`
}

// PodText is the pod that is evicted: "llm-0", or "llm-0 (4 pods)" of a unit.
func (m *PlannedMove) PodText() string {
	if len(m.Pods) == 0 {
		return m.Pod
	}
	return fmt.Sprintf("%s (%s)", m.Pod, display.Count(len(m.Pods), "pod"))
}

// NodeText is the node of the replacement: "s1", or "s1,s2" of a unit whose pods fit on several.
func (m *PlannedMove) NodeText() string {
	if len(m.Pods) == 0 {
		return m.Node
	}
	var nodes []string
	for _, p := range m.Pods {
		if p.Node != "" && !slices.Contains(nodes, p.Node) {
			nodes = append(nodes, p.Node)
		}
	}
	return strings.Join(nodes, ",")
}

func plannedMove(order int, w *PlannedWorkload, m *ReplicaMove) PlannedMove {
	out := PlannedMove{
		Order: order, Namespace: w.Namespace, Workload: KindName(w.Kind, w.Name, w.Role, w.Bare),
		Pod: m.Pod.Name, From: m.From.String(), To: m.To.String(), Slot: m.Slot, Unit: m.Unit,
	}
	for i, p := range m.Members {
		node := ""
		if i < len(m.Nodes) {
			node = m.Nodes[i]
		}
		if p.UID == m.Pod.UID {
			out.Node = node
		}
		if m.Unit != "" {
			out.Pods = append(out.Pods, UnitPod{Pod: p.Name, Node: node})
		}
	}
	return out
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

// PlanOf returns what changes of mixes do. The cluster has them afterwards.
func PlanOf(ctx context.Context, c *Cluster, changes []MixChange, room Room, now time.Time) (*Plan, error) {
	before, sources := desired(c, changes), governed(c)
	mixes := make([]*v1alpha1.CapacityMix, 0, len(changes))
	for _, m := range changes {
		if err := put(c, m.Then); err != nil {
			return nil, fmt.Errorf("CapacityMix %s/%s: %w", m.Then.Namespace, m.Then.Name, err)
		}
		mixes = append(mixes, m.Then)
	}
	shifted := shifts(c, sources)
	played, err := outcomes(ctx, c, mixes, shifted, room, now)
	if err != nil {
		return nil, err
	}
	p := &Plan{Mixes: []PlannedMix{}, Workloads: []PlannedWorkload{}, Moves: []PlannedMove{}, Blocked: []BlockedPod{}}
	for _, w := range changes {
		p.Mixes = append(p.Mixes, plannedMix(w))
		if w.Unvalidated != "" {
			p.Notes = append(p.Notes, fmt.Sprintf("CapacityMix %s/%s was not validated by the API server: %s", w.Then.Namespace, w.Then.Name,
				w.Unvalidated))
		}
	}
	for i := range played {
		p.addOutcome(before, &played[i])
	}
	for _, s := range shifted {
		p.Notes = append(p.Notes, shiftNote(s))
	}
	for _, o := range overrulings(c, mixes) {
		p.Notes = append(p.Notes, overruledNote(c, o))
	}
	for i := range played {
		p.Notes = append(p.Notes, outcomeNotes(c, &played[i])...)
	}
	return p, nil
}

func plannedMix(w MixChange) PlannedMix {
	out := PlannedMix{
		Namespace: w.Then.Namespace, Name: w.Then.Name, Action: "created", After: RuleOf(w.Then), Validated: w.Unvalidated == "",
	}
	if w.Now != nil {
		out.Action, out.Before = "changed", RuleOf(w.Now)
		if reflect.DeepEqual(w.Now.Spec, w.Then.Spec) {
			out.Action = "unchanged"
		}
	}
	return out
}

func (p *Plan) addOutcome(before map[string]Split, o *Outcome) {
	g := &o.Before
	w := PlannedWorkload{
		Namespace: g.Workload.Namespace, Kind: g.Workload.Kind, Name: g.Workload.Name, Revision: g.Workload.Revision,
		Source:   g.Governing.Source,
		Replicas: g.Replicas, Actual: Actual(g), Desired: Desired(g), WrongSide: o.Wrong, Moves: len(o.Moves),
		Blocked: len(o.Blocked), After: Actual(&o.After), Parts: PartsOf(g), Bare: bare(g),
	}
	if d, ok := before[groupName(g)]; ok {
		w.DesiredBefore = &d
	}
	p.Workloads = append(p.Workloads, w)
	workload := KindName(w.Kind, w.Name, w.Role, w.Bare)
	for i := range o.Moves {
		p.Moves = append(p.Moves, plannedMove(i+1, &w, &o.Moves[i]))
	}
	for _, b := range o.Blocked {
		p.Blocked = append(p.Blocked, BlockedPod{
			Namespace: w.Namespace, Workload: workload, Pod: b.Pod.Name, On: b.On.String(), Reason: b.Reason.Name, Message: b.Message,
		})
	}
}

func shiftNote(c counted[shift]) string {
	s := c.Of
	pods := podsOf(c.Pods, s.Workload) + " in namespace " + s.Namespace
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
	return display.Count(n, "pod") + " of " + workload
}

// overruledNote names what takes precedence over a mix, and why.
func overruledNote(c *Cluster, of counted[overruled]) string {
	o := of.Of
	why := "annotations have precedence over every CapacityMix"
	if other, ok := strings.CutPrefix(o.By, governing.SourceCapacityMix); ok {
		why = "the oldest CapacityMix has precedence"
		if m := c.Mix(o.Namespace, other); m != nil {
			why += ", " + other + " is from " + m.CreationTimestamp.UTC().Format("2006-01-02")
		}
	}
	return fmt.Sprintf("conflict: CapacityMix %s selects %s in namespace %s, which %s governs (%s)", o.Mix, podsOf(of.Pods, o.Workload),
		o.Namespace, SourceText(o.By), why)
}

// outcomeNotes describe what delays the moves of a workload.
func outcomeNotes(c *Cluster, o *Outcome) []string {
	var out []string
	for _, v := range o.Waits {
		out = append(out, fmt.Sprintf("moves of %s wait: %s (%s)", nameOf(&o.Before), v.Message, v.Reason))
	}
	if slices.ContainsFunc(o.Moves, func(m ReplicaMove) bool { return m.Unit != "" }) {
		out = append(out, fmt.Sprintf("%s: a move restarts all pods of a unit, and berth-controller must be allowed to get the %s",
			nameOf(&o.Before), o.Before.Workload.Kind))
	}
	m := c.MixOf(o.Before.Workload.Namespace, o.Before.Governing)
	if settings, err := c.RebalanceSettings(nil, m); err == nil && settings.Mode == rebalance.Report && len(o.Moves) > 0 {
		out = append(out, fmt.Sprintf("%s: rebalance.mode is Report, so the moves are only reported", nameOf(&o.Before)))
	}
	if pending, departing, _ := o.After.Counts(); pending+departing > 0 {
		out = append(out, fmt.Sprintf("%s: %s pending or on departing nodes, which take the type of their slots without a move",
			nameOf(&o.Before), display.Count(pending+departing, PartsOf(&o.Before).Replica())))
	}
	return out
}

// desired remembers the workloads of the mixes as they are now, by workload.
func desired(c *Cluster, changes []MixChange) map[string]Split {
	out := map[string]Split{}
	for _, w := range changes {
		for _, g := range c.State.Groups(w.Then.Namespace) {
			out[groupName(&g)] = Desired(&g)
		}
	}
	return out
}

// nameOf names a group in a note.
func nameOf(g *clusterstate.Group) string { return ofRole(g.Workload.String(), g.Governing.RoleName) }

// groupName is unique among the groups of all namespaces.
func groupName(g *clusterstate.Group) string {
	return g.Key.Namespace + "/" + g.Key.ID
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

// Sentences are about the mixes, each by itself.
func (p *Plan) Sentences() (out []string) {
	for _, m := range p.Mixes {
		out = append(out, m.sentence())
	}
	return out
}

// Remarks are the notes as sentences. The last one sums up the plan.
func (p *Plan) Remarks() (out []string) {
	for _, n := range p.Notes {
		out = append(out, display.Upper(n)+".")
	}
	return append(out, p.summary())
}

func (p *Plan) summary() string {
	return fmt.Sprintf("%s, %d blocked. Nothing was written.", display.Count(len(p.Moves), "move"), len(p.Blocked))
}

// RuleOf is the rule of a mix as people write it.
func RuleOf(m *v1alpha1.CapacityMix) string {
	p, _, err := governing.FromCapacityMix(m)
	if err != nil {
		return "invalid (" + err.Error() + ")"
	}
	return p.Mix.String()
}
