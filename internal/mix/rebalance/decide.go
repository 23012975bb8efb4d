// SPDX-License-Identifier: Apache-2.0

// Package rebalance decides which replica may move to the capacity type that
// its mix requires, and why not, from values alone: it reads no API and no clock.
//
// The decision is a chain of checks (checks.go), each with a reason (reasons.go). The first checks are about the workload as a
// whole, the others about each replica. The scheduler's own filters (internal/mix/simulation) must then prove capacity for a
// replica that the chain lets move, before it is evicted.
package rebalance

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Mode is what is done about a verdict to move.
type Mode string

// Modes, as in CapacityMix.
const (
	Evict  Mode = "Evict"
	Report Mode = "Report"
	Off    Mode = "Off"
)

// Settings are how the replicas of a mix are moved.
type Settings struct {
	Mode Mode
	// MaxConcurrent is how many of the mix's replicas may be being moved at the same time.
	MaxConcurrent int
	// MaxPerHour is how many moves of the mix may begin within an hour, 0 for no bound.
	MaxPerHour int
	// Paused is why the mix is paused, nil if it is not.
	Paused *Pause
	// Stabilization is how long a workload must have been out of its mix.
	Stabilization time.Duration
	Windows       Windows
	// Provisioning is where the capacity for a replacement comes from, and Strategy whether the replica goes before it comes.
	Provisioning Provisioning
	Strategy     Strategy
}

// Cluster is what holds for all mixes at this moment.
type Cluster struct {
	Now time.Time
	// GraceUntil is when the time after a start or an outage ends in which nothing is moved.
	GraceUntil time.Time
	// StormUntil is when a spot storm ends if no more nodes go; zero: there is none.
	StormUntil time.Time
	// InFlight of at most Limit replicas are being moved. Reserved places are for namespaces that have their turn before.
	InFlight, Reserved, Limit int
	DryRun                    bool
	// Canary restricts moves to some mixes, nil for no restriction. Health is the answer of the health gate, nil for no gate.
	Canary *Canary
	Health *Health
	// Pace is that of all moves.
	Pace Pace
	// Pauses are those of the cluster and of the namespace of the workload.
	Pauses []Pause
	// SchedulerNames are those of the profiles that place by the mix.
	SchedulerNames []string
	// RolloutDeadline is after how long a rollout whose own controller names no deadline counts as stuck.
	RolloutDeadline time.Duration
	// Requests is set where pods that name responders are moved by an EvictionRequest.
	Requests bool
}

// History is what is remembered of a workload.
type History struct {
	// WrongSince is when it was first seen out of its mix, zero if it is in it.
	WrongSince time.Time
	// RollingSince is when its rollout was first seen, zero if there is none.
	RollingSince time.Time
	// InFlight is how many replicas of its mix are being moved.
	InFlight int
	// Pace is that of its mix.
	Pace Pace
	// Failures is how many moves failed in a row; RetryAt when the next may be tried.
	Failures int32
	RetryAt  time.Time
	// Refused is why the last eviction was refused, with the answer of the API server, nil if it was not.
	Refused *Reason
	Refusal string
	// Restart is what the operator of the pods does with a unit once one of its pods ends.
	Restart Restart
	// Had is how many live pods the workload had before its last moves, 0 if all replicas have been available since; Moving how
	// many of its replicas are being moved.
	Had, Moving int
}

// Input is all that a decision depends on.
type Input struct {
	Cluster  Cluster
	Settings Settings
	History  History
	Group    clusterstate.Group
	// Budgets are the PodDisruptionBudgets of the namespace.
	Budgets []DisruptionBudget
	// MayFit reports whether some node of the type has free capacity by plain numbers. False is certain.
	MayFit func(t capacity.Type, p *clusterstate.Pod) bool
	// Skip leaves replicas out, by UID, with the verdict about each: those for which capacity could not be proven.
	Skip map[string]Verdict
	// For is the evaluation that a plan is for. It is not changed.
	For *Evaluation
	// placeless: capacity is not looked for, because a placeholder requests it.
	placeless bool
	// slots are those of replacements, slotsOf for which assignments: there may be as many questions as replicas.
	slots   *clusterstate.Replacements
	slotsOf []clusterstate.Assignment
}

// Verdict is a decision.
type Verdict struct {
	Reason  *Reason
	Message string
	// Pod is the replica concerned; nil where it is about the workload.
	Pod *clusterstate.Pod
	// Target is the type of the slot that the replacement will claim; set with ReasonMove and the reasons about capacity.
	Target capacity.Type
	// RetryAt is when time alone will have changed the verdict; zero: something else has to happen.
	RetryAt time.Time
}

// Choose returns which replica of a group moves next, or why none does, as if
// the mix had the mode Evict and the controller no --dry-run: what would be moved
// is found out in the same way. Effect returns what is done about it.
func Choose(in *Input) Verdict {
	var refusal *Verdict
	var next time.Time
	for _, v := range in.each {
		if v.Reason == ReasonMove {
			return v
		}
		if refusal == nil {
			refusal = &v
		}
		if !v.RetryAt.IsZero() && (next.IsZero() || v.RetryAt.Before(next)) {
			next = v.RetryAt // of any replica: it may then move instead of the first
		}
	}
	refusal.RetryAt = next
	return *refusal
}

// each is a sequence of the verdicts about the replicas that may move, or of
// one about the workload as a whole, without an assignment.
func (in *Input) each(yield func(clusterstate.Assignment, Verdict) (more bool)) {
	wrong := in.Group.WrongSide()
	if len(wrong) == 0 {
		yield(clusterstate.Assignment{}, Verdict{Reason: ReasonOnTarget})
		return
	}
	if v := first(workloadChecks, &subject{Input: in}); v.Reason != nil {
		yield(clusterstate.Assignment{}, v)
		return
	}
	for _, assignment := range append(wrong, substitutes(in.Group, wrong)...) {
		if !yield(assignment, in.decide(assignment)) {
			return
		}
	}
}

// decide returns the verdict about one replica.
func (in *Input) decide(a clusterstate.Assignment) Verdict {
	s := &subject{Input: in, Assignment: a, target: in.targetOf(&a)}
	v := first(replicaChecks, s)
	if v.Reason == nil {
		v = ReasonMove.because("%s from %s to %s", moves(&a), a.On, s.target)
	}
	v.Pod, v.Target = cmp.Or(v.Pod, a.Pod), cmp.Or(v.Target, s.target)
	return v
}

// moves is what moves, as the begin of a sentence.
func moves(a *clusterstate.Assignment) string {
	if n := len(a.Pods); n > 1 {
		return fmt.Sprintf("pod %s moves with all %d pods of unit %s", a.Pod.Name, n, a.Unit)
	}
	return fmt.Sprintf("pod %s moves", a.Pod.Name)
}

// substitutes returns the replicas that may move instead of those on the wrong
// side: borrowed ones below the lowest free slot. Where slots below the group's
// size are free, the replacement of a replica with a high slot takes one of
// them, and that may be of the type that is overfull already; the replacement
// of one of these takes the slot that it leaves.
func substitutes(g clusterstate.Group, wrong []clusterstate.Assignment) (list []clusterstate.Assignment) {
	over := map[capacity.Type]bool{}
	in := map[string]bool{}
	for _, s := range wrong {
		over[s.On], in[s.ID] = true, true
	}
	free := lowestFree(&g)
	for _, s := range slices.Backward(g.Assignments) {
		if s.Place == clusterstate.Settled && s.Borrowed() && s.Slot < free && over[s.On] && !in[s.ID] {
			list = append(list, s)
		}
	}
	return list
}

// Effect returns what is done about a replica that may move.
func (in *Input) Effect(v Verdict) Verdict {
	switch {
	case v.Reason != ReasonMove:
	case in.Settings.Mode == Report:
		v.Reason = ReasonReport
		v.Message = "rebalance.mode is Report: " + v.Message
	case in.Cluster.DryRun:
		v.Reason = ReasonDryRun
		v.Message = "the controller runs with --dry-run: " + v.Message
	}
	return v
}

// SlotOfReplacement is the slot that the replacement of one of a group's pods will claim.
func SlotOfReplacement(g *clusterstate.Group, victim types.UID) int {
	for i := range g.Assignments {
		if s := &g.Assignments[i]; s.Has(victim) {
			return g.Replacements().Slot(s)
		}
	}
	return g.Joiner(nil).Join(g.AnyOrder)
}

// lowestFree is the lowest slot of a group that no pod holds.
func lowestFree(g *clusterstate.Group) int { return g.Joiner(nil).Join(false) }

// floorOf is how many replicas the group has promised to on-demand whatever the percentage.
func floorOf(g clusterstate.Group) int {
	return min(int(g.Governing.Mix.MinOnDemand), len(g.Assignments))
}

func availableOnDemand(g *clusterstate.Group, now time.Time) (n int) {
	for i := range g.Assignments {
		s := &g.Assignments[i]
		if s.Place == clusterstate.Settled && s.On == capacity.OnDemand && g.AllAvailable(s, now) {
			n++
		}
	}
	return n
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05Z") }
