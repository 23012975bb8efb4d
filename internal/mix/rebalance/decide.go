// SPDX-License-Identifier: Apache-2.0

// Package rebalance decides which replica may move to the capacity type that
// its mix wants, and why not, from values alone: it reads no API and no clock.
//
// The decision is a chain of checks, each with a reason of its own. The first
// checks ask about the workload as a whole, the later ones about one replica
// after the other. What the chain lets through still has to prove capacity by the
// scheduler's own filters (internal/mix/simulation) before anything is evicted.
package rebalance

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/disruption"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/split"
)

// Reason is one word for why a replica moves or stays. Reasons stand in status,
// metrics and events; they are stable.
type Reason string

// Reasons of the checks in this file. Other checks have their reasons beside them.
const (
	// ReasonMove: the chosen replica may be evicted, once the capacity for its replacement is proven.
	ReasonMove Reason = "Move"
	// ReasonOnTarget: nothing has to move.
	ReasonOnTarget Reason = "OnTarget"
	// ReasonOff, ReasonReport, ReasonDryRun: the mix or the controller is not to evict.
	ReasonOff    Reason = "Off"
	ReasonReport Reason = "ReportOnly"
	ReasonDryRun Reason = "DryRun"
	// ReasonNoController: no one would make a replacement.
	ReasonNoController Reason = "NoController"
	// ReasonOtherScheduler: another scheduler would place the replacement, and not by the mix.
	ReasonOtherScheduler Reason = "OtherScheduler"
	// ReasonStartupGrace: the controller has just become leader, or the API server has just come back.
	ReasonStartupGrace Reason = "StartupGrace"
	// ReasonStorm: many spot nodes are going away at the same time.
	ReasonStorm Reason = "SpotStorm"
	// ReasonRollingOut: the workload is changing its revision, which places pods by the mix anyway.
	ReasonRollingOut Reason = "RollingOut"
	// ReasonStabilizing: the mix has not been broken for long enough.
	ReasonStabilizing Reason = "Stabilizing"
	// ReasonBackingOff: earlier moves of this workload failed.
	ReasonBackingOff Reason = "BackingOff"
	// ReasonOutsideWindow: no window of the mix is open.
	ReasonOutsideWindow Reason = "OutsideWindow"
	// ReasonMixBudget and ReasonClusterBudget: as many replicas as allowed are being moved.
	ReasonMixBudget     Reason = "MixBudget"
	ReasonClusterBudget Reason = "ClusterBudget"
	// ReasonNotReady: a replica of the workload is not Ready, or not for as long as its owner requests (minReadySeconds).
	ReasonNotReady Reason = "NotReady"
	// ReasonPinned: the pod names a capacity type itself.
	ReasonPinned Reason = "Pinned"
	// ReasonPodGroupMember: the pod belongs to a PodGroup, which may need all of its pods.
	ReasonPodGroupMember Reason = "PodGroupMember"
	// ReasonDoNotDisrupt: an annotation of the pod forbids to evict it.
	ReasonDoNotDisrupt Reason = "DoNotDisrupt"
	// ReasonLocalStorage: the pod has data on its node that would be lost.
	ReasonLocalStorage Reason = "LocalStorage"
	// ReasonNoGain: the replacement would take a lower free slot of the type that the pod runs on already.
	ReasonNoGain Reason = "NoGain"
	// ReasonFloor: too few available replicas would be left on on-demand.
	ReasonFloor Reason = "OnDemandFloor"
	// ReasonSpotUnavailable: replicas went to on-demand since spot nodes did not come, no spot node has free capacity, and spot is not
	// tried yet.
	ReasonSpotUnavailable Reason = "SpotUnavailable"
	// ReasonInsufficientCapacity: no node of the type has free capacity for the replacement.
	ReasonInsufficientCapacity Reason = "InsufficientCapacity"
	// ReasonProvisioning: a placeholder pod holds the capacity for the replacement, or waits for it.
	ReasonProvisioning Reason = "Provisioning"
)

// Mode says what is done about a verdict to move.
type Mode string

// Modes, as in CapacityMix.
const (
	Evict  Mode = "Evict"
	Report Mode = "Report"
	Off    Mode = "Off"
)

// Settings are what a mix asks of the rebalancer.
type Settings struct {
	Mode Mode
	// MaxConcurrent is how many of the mix's replicas may be being moved at the same time.
	MaxConcurrent int
	// Stabilization is how long a workload must have been out of its mix.
	Stabilization time.Duration
	Windows       Windows
	// Provisioning says where the capacity for a replacement comes from.
	Provisioning Provisioning
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
	// SchedulerNames are those of the profiles that place by the mix.
	SchedulerNames []string
	// RolloutDeadline is after how long a rollout whose own controller names no deadline counts as stuck.
	RolloutDeadline time.Duration
}

// History is what is remembered of a workload.
type History struct {
	// WrongSince is when it was first seen out of its mix, zero if it is in it.
	WrongSince time.Time
	// RollingSince is when its rollout was first seen, zero if there is none.
	RollingSince time.Time
	// InFlight is how many replicas of its mix are being moved.
	InFlight int
	// Failures is how many moves failed in a row; RetryAt when the next may be tried.
	Failures int32
	RetryAt  time.Time
	// Refused is why the last eviction was refused, with what the API server answered, "" if it was not.
	Refused Reason
	Refusal string
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
	// Skip leaves replicas out, by UID, and says why: those for which capacity could not be proven.
	Skip map[string]Verdict
	// placeless: capacity is not looked for, because a placeholder requests it.
	placeless bool
}

// Verdict is a decision.
type Verdict struct {
	Reason  Reason
	Message string
	// Pod is the replica concerned; nil where it is about the workload.
	Pod *clusterstate.Pod
	// Target is the type that the replacement will want; set with ReasonMove and the reasons about capacity.
	Target capacity.Type
	// RetryAt is when time alone will have changed the verdict; zero: something else has to happen.
	RetryAt time.Time
}

// Choose returns which replica of a group moves next, or why none does, as if
// the mix had the mode Evict and the controller no --dry-run: what would be moved
// is found out in the same way. Effect says what is done about it.
func Choose(in *Input) Verdict {
	var first *Verdict
	var next time.Time
	for _, v := range in.each {
		if v.Reason == ReasonMove {
			return v
		}
		if first == nil {
			first = &v
		}
		if !v.RetryAt.IsZero() && (next.IsZero() || v.RetryAt.Before(next)) {
			next = v.RetryAt // of any replica: it may then move instead of the first
		}
	}
	first.RetryAt = next
	return *first
}

// each is a sequence of the verdicts about the replicas that may move, or of
// one about the workload as a whole, without an assignment.
func (in *Input) each(yield func(clusterstate.Assignment, Verdict) (more bool)) {
	wrong := in.Group.WrongSide()
	if len(wrong) == 0 {
		yield(clusterstate.Assignment{}, Verdict{Reason: ReasonOnTarget})
		return
	}
	for _, check := range workloadChecks {
		if v, stop := check(in); stop {
			yield(clusterstate.Assignment{}, v)
			return
		}
	}
	for _, assignment := range append(wrong, substitutes(in.Group, wrong)...) {
		if !yield(assignment, decideReplica(in, assignment)) {
			return
		}
	}
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
	free := lowestFree(g, "")
	for _, s := range slices.Backward(g.Assignments) {
		if s.Place == clusterstate.Settled && s.Borrowed() && s.Slot < free && over[s.On] && !in[s.ID] {
			list = append(list, s)
		}
	}
	return list
}

// Effect says what is done about a replica that may move.
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

// workloadChecks ask about the workload as a whole, those that time does not
// change first. Each returns a verdict and whether it stops here.
var workloadChecks = []func(*Input) (Verdict, bool){
	switchedOff,
	withoutController,
	ownerEnded,
	countsAsFailure,
	otherScheduler,
	fixedNode,
	startupGrace,
	storm,
	rollingOut,
	stabilizing,
	backingOff,
	outsideWindow,
	overBudget,
	replicasMissing,
	atMaxUnavailable,
	notReady,
}

func stop(r Reason, retry time.Time, format string, args ...any) (Verdict, bool) {
	return Verdict{Reason: r, RetryAt: retry, Message: fmt.Sprintf(format, args...)}, true
}

func switchedOff(in *Input) (Verdict, bool) {
	if in.Settings.Mode == Off {
		return stop(ReasonOff, time.Time{}, "rebalance.mode is Off")
	}
	return Verdict{}, false
}

func withoutController(in *Input) (Verdict, bool) {
	if in.Group.Workload.UID == "" {
		return stop(ReasonNoController, time.Time{}, "pods without a controller are not evicted: no one would make new ones")
	}
	return Verdict{}, false
}

func otherScheduler(in *Input) (Verdict, bool) {
	// With the gate, the leading berth-scheduler says the type, and whoever schedules the pod keeps to it.
	if in.Group.Gated || slices.Contains(in.Cluster.SchedulerNames, in.Group.SchedulerName) {
		return Verdict{}, false
	}
	return stop(ReasonOtherScheduler, time.Time{}, "schedulerName is %s, which does not place by the mix", in.Group.SchedulerName)
}

func startupGrace(in *Input) (Verdict, bool) {
	if until := in.Cluster.GraceUntil; in.Cluster.Now.Before(until) {
		return stop(ReasonStartupGrace, until, "the controller has just started, or the API server was away: nothing is moved until %s",
			clockTime(until))
	}
	return Verdict{}, false
}

func storm(in *Input) (Verdict, bool) {
	if until := in.Cluster.StormUntil; in.Cluster.Now.Before(until) {
		return stop(ReasonStorm, until, "spot storm: many spot nodes are departing; nothing is moved before %s", clockTime(until))
	}
	return Verdict{}, false
}

func rollingOut(in *Input) (Verdict, bool) {
	r := in.Group.Rollout
	if !r.Rolling || r.Stuck {
		return Verdict{}, false
	}
	if in.History.RollingSince.IsZero() {
		return stop(ReasonRollingOut, time.Time{}, "a rollout is in progress")
	}
	if until := in.History.RollingSince.Add(in.Cluster.RolloutDeadline); in.Cluster.Now.Before(until) {
		return stop(ReasonRollingOut, until, "a rollout is in progress")
	}
	return Verdict{}, false
}

func stabilizing(in *Input) (Verdict, bool) {
	until := in.History.WrongSince.Add(in.Settings.Stabilization)
	if in.Cluster.Now.Before(until) {
		return stop(ReasonStabilizing, until, "out of its mix since %s; moves begin at %s", clockTime(in.History.WrongSince),
			clockTime(until))
	}
	return Verdict{}, false
}

func backingOff(in *Input) (Verdict, bool) {
	if at := in.History.RetryAt; in.Cluster.Now.Before(at) {
		if in.History.Refused != "" {
			return stop(in.History.Refused, at, "%s. Moves that failed or were refused in a row: %d; the next is tried at %s",
				in.History.Refusal, in.History.Failures, clockTime(at))
		}
		return stop(ReasonBackingOff, at, "%d moves in a row failed; the next is tried at %s", in.History.Failures, clockTime(at))
	}
	return Verdict{}, false
}

func outsideWindow(in *Input) (Verdict, bool) {
	open, until := in.Settings.Windows.Open(in.Cluster.Now)
	if open {
		return Verdict{}, false
	}
	if until.IsZero() {
		return stop(ReasonOutsideWindow, until, "no window for moves opens within a year")
	}
	return stop(ReasonOutsideWindow, until, "outside the windows for moves; the next opens at %s", until.UTC().Format(time.RFC3339))
}

func overBudget(in *Input) (Verdict, bool) {
	if in.History.InFlight >= in.Settings.MaxConcurrent {
		return stop(ReasonMixBudget, time.Time{}, "%d of at most %d replicas of this mix are being moved", in.History.InFlight,
			in.Settings.MaxConcurrent)
	}
	if in.Cluster.InFlight >= in.Cluster.Limit {
		return stop(ReasonClusterBudget, time.Time{}, "%d of at most %d replicas of the cluster are being moved", in.Cluster.InFlight,
			in.Cluster.Limit)
	}
	if in.Cluster.InFlight+in.Cluster.Reserved >= in.Cluster.Limit {
		return stop(ReasonClusterBudget, time.Time{},
			"%d of at most %d replicas of the cluster are being moved, and other namespaces have their turn first", in.Cluster.InFlight,
			in.Cluster.Limit)
	}
	return Verdict{}, false
}

func notReady(in *Input) (Verdict, bool) {
	if have := len(in.Group.Assignments); have < in.Group.Replicas {
		return stop(ReasonNotReady, time.Time{}, "%d of %d replicas have no pod yet", in.Group.Replicas-have, in.Group.Replicas)
	}
	// Of those that time alone makes available, the last one counts: the verdict holds until then.
	var last *clusterstate.Pod
	var until time.Time
	for _, s := range in.Group.Assignments {
		if s.Place != clusterstate.Settled {
			continue
		}
		at, ready := in.Group.AvailableAt(s.Pod)
		if !ready {
			return stop(ReasonNotReady, time.Time{}, "pod %s is not Ready", s.Pod.Name)
		}
		if in.Cluster.Now.Before(at) && at.After(until) {
			last, until = s.Pod, at
		}
	}
	if last != nil {
		return stop(ReasonNotReady, until, "pod %s is Ready, and available at %s (minReadySeconds: %d)", last.Name, clockTime(until),
			in.Group.MinReady/time.Second)
	}
	return Verdict{}, false
}

// decideReplica asks about one replica.
func decideReplica(in *Input, assignment clusterstate.Assignment) Verdict {
	p := assignment.Pod
	v := Verdict{Pod: p, Target: in.Group.Policy.Mix.TypeOf(replacementSlot(in.Group, assignment))}
	refuse := func(r Reason, format string, args ...any) Verdict {
		v.Reason, v.Message = r, fmt.Sprintf(format, args...)
		return v
	}
	if v.Reason, v.RetryAt, v.Message = mustStay(p, in.Cluster.Now); v.Reason != "" {
		return v
	}
	if v.Target == assignment.On {
		return refuse(ReasonNoGain, "the replacement of pod %s would take a free slot of type %s again", p.Name, assignment.On)
	}
	if v.Target == capacity.Spot && !in.hasPlace(p) {
		if v.Reason, v.RetryAt, v.Message = spotUnavailable(in); v.Reason != "" {
			return v
		}
	}
	if floor, n := floorOf(in.Group), availableOnDemand(&in.Group, in.Cluster.Now); assignment.On == capacity.OnDemand && n-1 < floor {
		return refuse(ReasonFloor, "%d available replicas are on on-demand, and %d must stay there", n, floor)
	}
	if ok, reason, message := Disruptable(in.Budgets, p.Labels, p.Ready); !ok {
		return refuse(Reason(reason), "%s", message)
	}
	if skip, there := in.Skip[string(p.UID)]; there {
		return skip
	}
	if !in.MayFit(v.Target, p) {
		return refuse(ReasonInsufficientCapacity, "no %s node has free capacity for the replacement of pod %s", v.Target, p.Name)
	}
	return refuse(ReasonMove, "pod %s moves from %s to %s", p.Name, assignment.On, v.Target)
}

// mustStay returns why a pod must not be evicted, whatever its workload, "" if nothing forbids it.
func mustStay(p *clusterstate.Pod, now time.Time) (r Reason, retryAt time.Time, message string) {
	switch key, until := p.Keeps(now); {
	case p.Pinned:
		return ReasonPinned, time.Time{}, fmt.Sprintf("pod %s names a capacity type in its own nodeSelector or affinity", p.Name)
	case p.Grouped:
		return ReasonPodGroupMember, time.Time{}, fmt.Sprintf("pod %s is a member of a PodGroup, which may need all of its members", p.Name)
	case !until.IsZero() && p.LocalData == "":
		return ReasonDoNotDisrupt, until, fmt.Sprintf("pod %s has the annotation %s: %s, which ends at %s", p.Name, key,
			p.Annotations[key], until.UTC().Format(time.RFC3339))
	case key != "" && until.IsZero():
		return ReasonDoNotDisrupt, time.Time{}, fmt.Sprintf("pod %s has the annotation %s", p.Name, key)
	case p.LocalData != "":
		return ReasonLocalStorage, time.Time{}, fmt.Sprintf(
			"pod %s has data on its node in volume %s (annotation %s: \"true\" lets it move)", p.Name, p.LocalData, disruption.SafeToEvict)
	}
	return "", time.Time{}, ""
}

// SlotOfReplacement is the slot that the replacement of one of a group's pods will claim.
func SlotOfReplacement(g *clusterstate.Group, victim types.UID) int {
	for _, s := range g.Assignments {
		if s.Pod.UID == victim {
			return replacementSlot(*g, s)
		}
	}
	return lowestFree(*g, victim)
}

// replacementSlot is the slot that the replacement of a replica will claim: the
// lowest free one, unless a slot comes with the pod's identity.
func replacementSlot(g clusterstate.Group, victim clusterstate.Assignment) int {
	if g.Identity {
		return victim.Slot
	}
	return lowestFree(g, victim.Pod.UID)
}

// lowestFree is the lowest slot of a group that no one but one pod holds.
func lowestFree(g clusterstate.Group, without types.UID) int {
	var taken split.Slots
	for _, slot := range g.Taken {
		taken.Take(slot)
	}
	for _, s := range g.Assignments {
		if s.Pod.UID != without {
			taken.Take(s.Slot)
		}
	}
	return taken.Lowest()
}

// floorOf is how many replicas the group has promised to on-demand whatever the percentage.
func floorOf(g clusterstate.Group) int {
	return min(int(g.Policy.Mix.MinOnDemand), len(g.Assignments))
}

func availableOnDemand(g *clusterstate.Group, now time.Time) (n int) {
	for i := range g.Assignments {
		s := &g.Assignments[i]
		if s.Place == clusterstate.Settled && s.On == capacity.OnDemand && g.Available(s.Pod, now) {
			n++
		}
	}
	return n
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05Z") }
