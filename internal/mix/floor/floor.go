// SPDX-License-Identifier: Apache-2.0

// Package floor decides how evictions are kept from leaving fewer replicas of a group on on-demand than its mix has as minimum: which
// replicas have the label of the group, and what the PodDisruptionBudget that selects them requires. It is a function of values.
package floor

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// NameOf is the name of the PodDisruptionBudget that selects a label.
func NameOf(label string) string { return "berth-floor-" + label }

// Input is what a decision depends on.
type Input struct {
	Key governing.GroupKey
	// Group is nil if there is none any more.
	Group *clusterstate.Group
	// Missing is how many successors of released replicas of the group there are not yet.
	Missing int
	// Labelled are the live pods of the namespace that have the label of the group.
	Labelled []*clusterstate.Pod
	// TypeOf returns the capacity type of a node.
	TypeOf func(node string) capacity.Type
	// Overlapping names a PodDisruptionBudget of a user that selects labels, "" if there is none. It is nil where users have none.
	Overlapping func(labels map[string]string) string
	// TooMany is set where not all PodDisruptionBudgets of the namespace are matched.
	TooMany bool
	// InUse reports whether another client set the label of a pod.
	InUse func(*clusterstate.Pod) bool
}

// Change is a label to be written. A Value of "" removes it.
type Change struct {
	Pod   *clusterstate.Pod
	Value string
	// First is set where fewer pods than the floor have the label without this one.
	First bool
}

// Decision is what protects the floor of a group.
type Decision struct {
	// Floor is how many of the pods with the label the PodDisruptionBudget requires. With 0 there is none.
	Floor int
	// Stays is set where the PodDisruptionBudget stays as it is, if there is one.
	Stays bool
	// Changes are the labels to be written, in the order of the slots.
	Changes []Change
	Verdict
}

// Verdict is whether the floor is protected. The zero value is that of a group without a floor.
type Verdict struct {
	// Reason is one of those of the condition FloorProtected, Message why it is not protected.
	Reason, Message string
}

// Decide returns what protects the floor of a group.
//
// The budget has a number, for which the disruption controller reads no scale, so that every owner has it. The number is at most that of
// the replicas, and one more for each replica that was released: it ends after a while whatever becomes of its successor, so that it does
// not count for the floor, and no other replica may go because it runs beside its successor. Nothing is decided on what is ready: the
// Eviction API does that.
func Decide(in Input) Decision {
	n := of(in.Group, in.Missing)
	switch {
	case in.Group == nil && in.Missing > 0:
		return Decision{Stays: true} // the successor is about to be created
	case n == 0:
		return Decision{}
	case in.Group.Units:
		return Unprotected(v1alpha1.ReasonUnits, "a PodDisruptionBudget counts pods, and the replicas are units of pods")
	case in.TooMany:
		return Unprotected(v1alpha1.ReasonTooManyBudgets,
			"the namespace has more PodDisruptionBudgets than are matched: delete those without pods")
	}
	if name := in.overlapping(); name != "" {
		return Unprotected(v1alpha1.ReasonOverlappingBudget, "PodDisruptionBudget %q selects replicas, and the Eviction API refuses pods that "+
			"two select, so Berth keeps none: change its selector, or let it protect the floor and remove spec.protectFloor", name)
	}
	d := Decision{Floor: n, Verdict: Verdict{Reason: v1alpha1.ReasonBudgetsKept}}
	if p := d.label(&in); p != nil {
		d.Reason = v1alpha1.ReasonLabelInUse
		d.Message = fmt.Sprintf("another client set the label %s of pod %s, which Berth does not change: remove it from the pod, "+
			"or from its template", v1alpha1.FloorLabel, p.Name)
	}
	d.Floor += in.released()
	return d
}

// released counts the pods with the label that were released from the group.
func (in *Input) released() (n int) {
	for _, p := range in.Labelled {
		if in.left(p) {
			n++
		}
	}
	return n
}

// Unprotected is the decision about a floor that cannot be protected.
func Unprotected(reason, format string, args ...any) Decision {
	return Decision{Verdict: Verdict{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// of is the floor of a group that is to be protected: minOnDemand, and no more than its replicas, which all run on on-demand then. It is
// 0 where nothing is to be protected. Where no owner reports the replicas, they are counted, and the successors of released ones that
// are missing count as well: otherwise a release would lower the floor.
func of(g *clusterstate.Group, missing int) int {
	if g == nil || !g.Governing.ProtectFloor {
		return 0
	}
	replicas := g.Replicas
	if !g.Counted {
		replicas += missing
	}
	return min(int(g.Governing.Mix.MinOnDemand), replicas)
}

// left reports whether a pod was released from the group.
func (in *Input) left(p *clusterstate.Pod) bool {
	from, _ := p.ReleasedFrom()
	return p.Leaves() && from.Group == in.Key.ID
}

// overlapping names a budget of a user that selects a replica of the group, "" if there is none.
func (in *Input) overlapping() string {
	if in.Overlapping == nil {
		return ""
	}
	seen := map[clusterstate.LabelSet]bool{}
	for i := range in.Group.Assignments {
		p := in.Group.Assignments[i].Pod
		if seen[p.LabelSet()] {
			continue
		}
		seen[p.LabelSet()] = true
		if name := in.Overlapping(p.Labels); name != "" {
			return name
		}
	}
	return ""
}

// label adds the labels that are to be written, and returns a pod with a wrong one that another client set, nil if there is none. What
// runs on a node of unknown type keeps what it has.
func (d *Decision) label(in *Input) (inUse *clusterstate.Pod) {
	own, counted := governing.FloorLabel(in.Key), 0
	for i := range in.Group.Assignments {
		p := in.Group.Assignments[i].Pod
		want := ""
		switch t := in.TypeOf(p.Node); {
		case p.Node == "", t == capacity.Unknown:
			continue
		case t == capacity.OnDemand:
			want = own
		}
		switch has, is := p.Labels[v1alpha1.FloorLabel]; {
		case is == (want != "") && has == want:
			if is {
				counted++
			}
		case is && in.InUse(p):
			inUse = p
		default:
			d.Changes = append(d.Changes, Change{Pod: p, Value: want})
		}
	}
	for i := range d.Changes {
		if c := &d.Changes[i]; c.Value != "" && counted < d.Floor {
			c.First = true
			counted++
		}
	}
	return cmp.Or(d.others(in), inUse)
}

// others removes the label from pods that are no replicas of the group, and were not released from it: they would count for the floor.
func (d *Decision) others(in *Input) (inUse *clusterstate.Pod) {
	replicas := make(map[types.UID]bool, len(in.Group.Assignments))
	for i := range in.Group.Assignments {
		replicas[in.Group.Assignments[i].Pod.UID] = true
	}
	for _, p := range in.Labelled {
		switch {
		case replicas[p.UID], in.left(p):
		case in.InUse(p):
			inUse = p
		default:
			d.Changes = append(d.Changes, Change{Pod: p})
		}
	}
	return inUse
}
