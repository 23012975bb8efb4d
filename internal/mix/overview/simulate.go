// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// Room proves that the replacement of a replica finds a node of a type, and
// keeps that capacity for it while the replica itself is taken as gone. The pods of a unit must fit at the same time.
type Room interface {
	Prove(ctx context.Context, pods []*clusterstate.Pod, t capacity.Type) (Proof, error)
}

// Proof is the answer of a Room.
type Proof struct {
	Fits bool
	// Nodes are those that fit, one for each pod; Why is why none of them fits.
	Nodes []string
	Why   string
}

// ReplicaMove is a replica that makes way for one on the other type.
type ReplicaMove struct {
	Pod      *clusterstate.Pod
	From, To capacity.Type
	// Slot is the one that the replacement takes.
	Slot int
	// Unit is that of a replica of several pods, "" for none, and Members are all pods that make way: Pod and the others of its unit.
	Unit    string
	Members []*clusterstate.Pod
	// Nodes have free capacity for the replacements of the members, in their order; empty if that was not checked.
	Nodes []string
}

// BlockedReplica is a replica on the wrong side that stays there.
type BlockedReplica struct {
	Pod     *clusterstate.Pod
	On      capacity.Type
	Reason  *rebalance.Reason
	Message string
}

// Outcome is what becomes of a group.
type Outcome struct {
	Before clusterstate.Group
	// Wrong is how many replicas have to move.
	Wrong   int
	Moves   []ReplicaMove
	Blocked []BlockedReplica
	// Waits are the things that delay the moves and pass by themselves.
	Waits []rebalance.Verdict
	After clusterstate.Group
}

// PlanInput is a rebalance.Input for a plan: no move is under way, no budget spent,
// and the capacity is proven by a Room. The scale is what the owner of units reports, nil for other replicas.
func PlanInput(g clusterstate.Group, s rebalance.Settings, budgets []rebalance.DisruptionBudget, schedulers []string,
	scale *rebalance.Scale, now time.Time,
) *rebalance.Input {
	if s.MaxConcurrent < 1 {
		s.MaxConcurrent = 1
	}
	in := &rebalance.Input{
		Group: g, Settings: s, Budgets: budgets,
		Cluster: rebalance.Cluster{Now: now, Limit: 1, SchedulerNames: schedulers},
		History: rebalance.History{WrongSince: now.Add(-s.Stabilization)},
		MayFit:  func(capacity.Type, *clusterstate.Pod) bool { return true },
		Skip:    map[string]rebalance.Verdict{},
	}
	if scale == nil {
		return in
	}
	in.History.Restart = scale.Restart
	if v := scale.Missing(&g, 0); v.Reason != nil { // the controller evicts none of them then
		for i := range g.Assignments {
			in.Skip[string(g.Assignments[i].Pod.UID)] = v
		}
	}
	return in
}

// Simulate plays the moves of a group to their end.
func Simulate(ctx context.Context, given *rebalance.Input, room Room) (Outcome, error) {
	in := *given
	out := Outcome{Before: in.Group, Wrong: len(in.Group.WrongSide())}
	out.Waits = pass(&in)
	// No move is needed twice: more than this would be a fault here.
	for range 2 * len(in.Group.Assignments) {
		moved, blocked, err := step(ctx, &in, room)
		if err != nil {
			return Outcome{}, err
		}
		out.Blocked = blocked
		if moved == nil {
			break
		}
		out.Moves = append(out.Moves, *moved)
	}
	out.After = in.Group
	return out, nil
}

// pass removes the causes that only delay moves, and returns their verdicts.
func pass(in *rebalance.Input) (waits []rebalance.Verdict) {
	for {
		v := rebalance.Choose(in)
		if v.Reason.Lift == nil || slices.ContainsFunc(waits, func(w rebalance.Verdict) bool { return w.Reason == v.Reason }) {
			return waits
		}
		waits = append(waits, v)
		v.Reason.Lift(in)
	}
}

// step makes the next move, as the rebalancer chooses it. Where there is none,
// it returns what keeps the replicas on the wrong side.
func step(ctx context.Context, in *rebalance.Input, room Room) (*ReplicaMove, []BlockedReplica, error) {
	noRoom := map[string]rebalance.Verdict{}
	maps.Copy(noRoom, in.Skip)
	for {
		asked := *in
		asked.Skip = noRoom
		v := rebalance.Choose(&asked)
		if v.Reason != rebalance.ReasonMove {
			return nil, blocked(&asked), nil
		}
		proof, err := room.Prove(ctx, membersOf(&in.Group, v.Pod), v.Target)
		if err != nil {
			return nil, nil, err
		}
		if proof.Fits {
			m := replace(&in.Group, v)
			m.Nodes = proof.Nodes
			return &m, nil, nil
		}
		v = InsufficientCapacity(&asked, v, proof.Why)
		noRoom[string(v.Pod.UID)] = v
	}
}

// InsufficientCapacity is the verdict about a replica whose replacement has no capacity now.
func InsufficientCapacity(in *rebalance.Input, v rebalance.Verdict, why string) rebalance.Verdict {
	v.Reason, v.Message = rebalance.ReasonInsufficientCapacity, why
	if in.Provisions() && len(membersOf(&in.Group, v.Pod)) == 1 { // a placeholder holds the capacity of one pod
		v.Reason, v.Message = rebalance.ReasonProvisioning, why+"; a placeholder pod first makes an autoscaler provide it"
	}
	return v
}

// blocked returns, for each replica on the wrong side, what keeps it there.
func blocked(in *rebalance.Input) []BlockedReplica {
	var out []BlockedReplica
	for _, assignment := range in.Group.WrongSide() {
		v := VerdictAbout(in, assignment)
		out = append(out, BlockedReplica{Pod: assignment.Pod, On: assignment.On, Reason: v.Reason, Message: v.Message})
	}
	return out
}

// VerdictAbout returns the verdict about one replica of WrongSide. Decide looks at
// borrowed replicas first and stops at one that may move: so this one is made
// the only borrowed one, and no other has free capacity.
func VerdictAbout(given *rebalance.Input, about clusterstate.Assignment) rebalance.Verdict {
	in := *given
	in.Group.Assignments = slices.Clone(in.Group.Assignments)
	for i := range in.Group.Assignments {
		s := &in.Group.Assignments[i]
		s.Wants = s.On
		if s.ID == about.ID {
			s.Wants = other(s.On)
		}
	}
	mayFit := in.MayFit
	in.MayFit = func(t capacity.Type, p *clusterstate.Pod) bool { return p.UID == about.Pod.UID && mayFit(t, p) }
	return rebalance.Choose(&in)
}

// other is a type that differs, for unknown too.
func other(t capacity.Type) capacity.Type {
	if t == capacity.Spot {
		return capacity.OnDemand
	}
	return capacity.Spot
}

// replace puts the replacement of a replica on its slot: a Ready one on the
// type it was proven to have free capacity on.
func replace(g *clusterstate.Group, v rebalance.Verdict) ReplicaMove {
	slot := rebalance.SlotOfReplacement(g, v.Pod.UID)
	var gone clusterstate.Assignment
	assignments := make([]clusterstate.Assignment, 0, len(g.Assignments))
	for _, s := range g.Assignments {
		if s.Has(v.Pod.UID) {
			gone = s
			continue
		}
		assignments = append(assignments, s)
	}
	assignment := clusterstate.Assignment{Unit: gone.Unit, Assignment: split.Assignment{
		Wants: g.Governing.Mix.TypeOf(slot),
		Pod:   split.Pod{ID: "replacement of " + gone.ID, Created: gone.Created, Slot: slot, On: v.Target},
	}}
	for _, p := range gone.Members() {
		next := successor(p)
		if p.UID == gone.Pod.UID {
			assignment.Pod = next
		}
		if gone.Unit != "" {
			assignment.Pods = append(assignment.Pods, next)
		}
	}
	at, _ := slices.BinarySearchFunc(assignments, slot, func(s clusterstate.Assignment, slot int) int { return s.Slot - slot })
	g.Assignments = slices.Insert(assignments, at, assignment)
	m := ReplicaMove{Pod: gone.Pod, From: gone.On, To: v.Target, Slot: slot, Members: gone.Members()}
	if len(m.Members) > 1 {
		m.Unit = gone.Unit
	}
	return m
}

// successor is the Ready pod that follows another one.
func successor(p *clusterstate.Pod) *clusterstate.Pod {
	next := *p
	next.UID, next.Ready, next.Node = "replacement of "+p.UID, true, ""
	next.SetAnnotations(unplaced(p.AllAnnotations()))
	return &next
}

// membersOf are the pods that make way with one of them.
func membersOf(g *clusterstate.Group, pod *clusterstate.Pod) []*clusterstate.Pod {
	i := slices.IndexFunc(g.Assignments, func(a clusterstate.Assignment) bool { return a.Has(pod.UID) })
	return g.Assignments[i].Members()
}

// unplaced drops what came with the binding: a replacement starts without it.
func unplaced(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range annotations {
		if !placed[k] {
			out[k] = v
		}
	}
	return out
}

// Ample is a Room that never ends; for what-if without a look at the nodes.
type Ample struct{}

// Prove implements Room.
func (Ample) Prove(context.Context, []*clusterstate.Pod, capacity.Type) (Proof, error) {
	return Proof{Fits: true}, nil
}

// placed are the annotations that come with the binding, or the opening of the gate.
var placed = map[string]bool{
	v1alpha1.SlotAnnotation: true, v1alpha1.CapacityTypeAnnotation: true, v1alpha1.MixAnnotation: true,
	v1alpha1.ClaimAnnotation: true, v1alpha1.FallbackAnnotation: true, v1alpha1.UngateReasonAnnotation: true,
	v1alpha1.UngatedAtAnnotation: true, v1alpha1.DomainRequirementsAnnotation: true, v1alpha1.QuarantineTermsAnnotation: true,
}
