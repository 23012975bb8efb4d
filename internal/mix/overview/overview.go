// SPDX-License-Identifier: Apache-2.0

// Package overview makes of a Cluster, which is what was read, the structures that the command line and the console show: Overview has
// the totals, the nodes and each workload with its slots, Status the mixes and workloads, Nodes each node, Explanation a pod, Plan what a
// change would do, and History what happened. They encode to JSON. All count with the methods of clusterstate.Group, as the status of a
// CapacityMix does.
package overview

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Input is what an overview is made of.
type Input struct {
	State *clusterstate.State
	// Pods, Nodes and Mixes are as the API has them.
	Pods  []*corev1.Pod
	Nodes []*corev1.Node
	Mixes []*v1alpha1.CapacityMix
	// Unread are those of them that were not read.
	Unread Unread
	// Selector chooses workloads by the labels of their pods; nil chooses all.
	Selector labels.Selector
}

// Overview is what is shown. All texts in it are printable ASCII of bounded length, whatever the objects contain.
type Overview struct {
	Totals Totals `json:"totals"`
	// Nodes are the groups of nodes by type and zone, nil (null in JSON) where the nodes were not read.
	Nodes []NodeGroup `json:"nodes"`
	// Pools are the same by type and node pool.
	Pools []NodeGroup `json:"-"`
	// Workloads are sorted: those that do not satisfy their mix first, then those of which it is unknown, then by namespace and name.
	// Where pods or mixes were not read, some are missing.
	Workloads []Workload `json:"workloads"`
}

// Totals are the sums of the workloads. All of them are unknown where workloads are missing.
type Totals struct {
	Mixes     Maybe[int] `json:"mixes"`
	Workloads Maybe[int] `json:"workloads"`
	// Satisfied is unknown where that is unknown of a workload.
	Satisfied Maybe[int] `json:"satisfied"`
	Replicas  Maybe[int] `json:"replicas"`
	Counts    `json:",inline"`
}

// Workload is one revision of a workload.
type Workload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Revision  string `json:"revision,omitempty"`
	Parts     `json:",inline"`
	// Source is where the mix comes from: capacitymix/<name>, annotations/pod, annotations/controller or default.
	Source string `json:"source"`
	Rule   string `json:"rule"`
	// Floor is how many of the replicas always run on on-demand nodes.
	Floor     int `json:"floor"`
	Replicas  int `json:"replicas"`
	Counts    `json:",inline"`
	Satisfied Maybe[bool] `json:"satisfied"`
	// Reason is why the mix is not satisfied, Message the same in a sentence. Reason is Unknown where Satisfied is.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Slots   []Slot `json:"slots"`
	// HiddenSlots counts the slots without a pod that Slots does not list.
	HiddenSlots int `json:"hiddenSlots,omitempty"`
	// Bare is set for the pods of a mix that have no controller: they are one workload.
	Bare bool   `json:"bare,omitempty"`
	ID   string `json:"-"`
}

// Of returns the overview of a cluster.
func Of(in Input) *Overview {
	out := &Overview{Workloads: []Workload{}}
	b := newBuilder(in)
	if b.governedRead() {
		out.Totals = Totals{Workloads: Known(0), Satisfied: Known(0), Replicas: Known(0), Counts: NoCounts()}
	}
	for _, namespace := range in.State.Namespaces() {
		for _, g := range in.State.Current(namespace) {
			if !b.selects(g) {
				continue
			}
			w := b.workload(g)
			out.Totals.add(&w)
			out.Workloads = append(out.Workloads, w)
		}
	}
	slices.SortFunc(out.Workloads, byUrgency)
	out.Totals.Mixes = b.mixesShown()
	out.Nodes = b.nodeGroups(func(n *nodeFacts) string { return n.zone })
	out.Pools = b.nodeGroups(func(n *nodeFacts) string { return n.pool })
	return out
}

func byUrgency(a, b Workload) int {
	return cmp.Or(cmp.Compare(urgency(&a), urgency(&b)), ByName(a, b))
}

func urgency(w *Workload) int {
	switch {
	case w.Satisfied.Is(false):
		return 0
	case w.Satisfied.Unknown():
		return 1
	}
	return 2
}

// ByName orders workloads by namespace and name.
func ByName(a, b Workload) int {
	return cmp.Or(byNames(a.Namespace, a.Name, b.Namespace, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Revision, b.Revision),
		cmp.Compare(a.Role, b.Role), cmp.Compare(a.ID, b.ID))
}

func (t *Totals) add(w *Workload) {
	more := func(n int) func(int) int { return func(sum int) int { return sum + n } }
	t.Workloads, t.Replicas = Part(t.Workloads, more(1)), Part(t.Replicas, more(w.Replicas))
	switch satisfied, known := w.Satisfied.Get(); {
	case !known:
		t.Satisfied = Maybe[int]{}
	case satisfied:
		t.Satisfied = Part(t.Satisfied, more(1))
	}
	t.Add(w.Counts)
}

// builder has what the workloads of an overview share.
type builder struct {
	Input
	mixes map[types.NamespacedName]*v1alpha1.CapacityMix
	// waits is why pods have no node, and pods are as the API has them, by their UID.
	waits scheduled
	pods  map[types.UID]*corev1.Pod
	// governing are the mixes of the workloads that were selected.
	governing map[types.NamespacedName]bool
	// nodes are the nodes of the cluster, byName those with their zone, and pods the pods of selected workloads on them.
	nodes map[string]*nodeFacts
}

func newBuilder(in Input) *builder {
	b := &builder{
		Input: in, mixes: make(map[types.NamespacedName]*v1alpha1.CapacityMix, len(in.Mixes)), waits: scheduledOf(in.Pods),
		pods:      podsByUID(in.Pods),
		governing: map[types.NamespacedName]bool{}, nodes: nodesOf(in),
	}
	for _, m := range in.Mixes {
		b.mixes[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}] = m
	}
	return b
}

// waitReason is what the scheduler reported of a pod without a node.
func waitReason(p *corev1.Pod) string {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return display.Inert(c.Message, maxMessage)
		}
	}
	return ""
}

// selects reports whether the selector matches a pod of a group.
func (b *builder) selects(g *clusterstate.Group) bool {
	if b.Selector == nil || b.Selector.Empty() {
		return true
	}
	return slices.ContainsFunc(g.Assignments, func(s clusterstate.Assignment) bool {
		return slices.ContainsFunc(s.Members(), func(p *clusterstate.Pod) bool { return b.Selector.Matches(labels.Set(p.Labels)) })
	})
}

// governedRead reports whether all workloads that a mix governs are there.
func (b *builder) governedRead() bool { return !b.Unread.Pods && !b.Unread.Mixes }

// mixesShown counts the mixes, or with a selector those that govern a selected workload.
func (b *builder) mixesShown() Maybe[int] {
	all := b.Selector == nil || b.Selector.Empty()
	switch {
	case b.Unread.Mixes, !all && b.Unread.Pods:
		return Maybe[int]{}
	case all:
		return Known(len(b.Mixes))
	}
	return Known(len(b.governing))
}

func (b *builder) workload(g *clusterstate.Group) Workload {
	name, mix := g.Workload, g.Governing.Mix
	m := b.mixOf(g)
	standing := StandingOf(g, m, b.Unread)
	w := Workload{
		Namespace: display.Inert(name.Namespace, maxName), Kind: display.Inert(name.Kind, maxName), Name: display.Inert(name.Name, maxName),
		Revision: display.Inert(name.Revision, maxName), Source: display.Inert(g.Governing.Source, maxName), Rule: mix.String(),
		Floor: min(int(mix.MinOnDemand), g.Replicas), Satisfied: standing.Satisfied, Bare: bare(g), ID: g.Key.ID,
		Parts: PartsOf(g), Replicas: g.Replicas, Counts: standing.Counts,
	}
	w.Slots, w.HiddenSlots = b.slots(g)
	if !w.Satisfied.Is(true) {
		w.Reason, w.Message = stateOf(g, m, &standing, b.Unread, b.waits)
	}
	return w
}

// mixOf returns the CapacityMix that governs a group, nil for other sources.
func (b *builder) mixOf(g *clusterstate.Group) *v1alpha1.CapacityMix {
	name, ok := cutSource(g.Governing.Source)
	if !ok {
		return nil
	}
	key := types.NamespacedName{Namespace: g.Key.Namespace, Name: name}
	b.governing[key] = true
	return b.mixes[key]
}

// slots are the slots of a group, in their order.
func (b *builder) slots(g *clusterstate.Group) ([]Slot, int) {
	slots := make([]Slot, 0, len(g.Assignments))
	var taken split.Slots
	for i := range g.Assignments {
		taken.Take(g.Assignments[i].Slot)
		slot := b.slot(g.Governing, &g.Assignments[i])
		slot.Arrival = b.arrival(g, &g.Assignments[i])
		slots = append(slots, slot)
	}
	missing := g.Replicas - len(g.Assignments)
	if missing <= 0 {
		return slots, 0
	}
	for range min(missing, maxMissing) {
		n := taken.Lowest()
		taken.Take(n)
		slots = append(slots, emptySlot(g.Governing, n))
	}
	slices.SortStableFunc(slots, func(a, b Slot) int { return cmp.Compare(a.Slot, b.Slot) })
	return slots, max(0, missing-maxMissing)
}

func emptySlot(p *governing.Mix, n int) Slot {
	return Slot{Slot: n, Type: p.Mix.TypeOf(n).String(), Floor: p.Mix.IsFloor(n), State: NoPod}
}
