// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Provisioning is where the capacity for a replacement comes from.
type Provisioning string

// Where capacity comes from, as in CapacityMix.
const (
	// Wait is for a node that is there to have it.
	Wait Provisioning = "Wait"
	// WithPlaceholder is for a pod of low priority, which requests it and holds it until the replica is evicted.
	WithPlaceholder Provisioning = "Placeholder"
)

// Provision returns the replica for whose replacement a placeholder may be
// created: the first that could move if its type had capacity. There are never more
// placeholders than replicas that have to move; Input.Skip names the replicas
// that have one, with ReasonProvisioning.
func Provision(in *Input) (v Verdict, ok bool) {
	if !in.Provisions() {
		return Verdict{}, false
	}
	left := len(in.Group.WrongSide())
	for a, one := range in.each {
		switch {
		case one.Reason == ReasonProvisioning:
			left--
		case len(a.Pods) > 1: // a placeholder holds the capacity of one pod
		case one.Reason == ReasonInsufficientCapacity && !ok:
			v, ok = one, true
		}
	}
	return v, ok && left > 0
}

// Handover is when a placeholder gives its capacity to the replacement.
type Handover string

const (
	// BeforeEviction is for a replacement that goes to the other type at once where it finds the capacity taken.
	BeforeEviction Handover = "BeforeEviction"
	// AfterEviction is for a replacement that waits for the capacity, and is made at the moment of the eviction.
	AfterEviction Handover = "AfterEviction"
	// OnceGone is for a replacement that waits for the capacity, and is made when the replica is gone, which takes its grace period.
	OnceGone Handover = "OnceGone"
)

// HandoverOf returns when the placeholder of a group's replica gives its capacity away.
func HandoverOf(g *clusterstate.Group, target capacity.Type) Handover {
	borrows := g.Governing.BorrowSpot
	if target == capacity.Spot {
		borrows = g.Governing.BorrowOnDemand && g.Governing.SpotWait == 0
	}
	switch {
	case borrows && !g.Gated:
		return BeforeEviction
	case g.Identity:
		return OnceGone
	}
	return AfterEviction
}

// Provisions reports whether placeholders are created for the workload at all.
func (in *Input) Provisions() bool {
	return in.Settings.Provisioning == WithPlaceholder && in.Effect(Verdict{Reason: ReasonMove}).Reason == ReasonMove
}

// Holder is the state of the placeholder of a replica.
type Holder struct {
	// Target is the type of the node that it requests.
	Target  capacity.Type
	Created time.Time
	// Running ones hold the capacity.
	Running bool
	// Lost ones ended, or were deleted by another client.
	Lost bool
}

// Step is what is done next about a replica or its placeholder.
type Step string

const (
	// StepWait is to wait for the placeholder to run, or for what holds its replica up.
	StepWait Step = "Wait"
	// StepMove is to prove that the replacement of a replica fits, in the place of the placeholder if there is one, so that the
	// replica may be evicted.
	StepMove Step = "Move"
	// StepRelease is to delete the placeholder of a replica that is evicted next.
	StepRelease Step = "Release"
	// StepEvict is to evict the replica.
	StepEvict Step = "Evict"
	// StepSurvey is to read what could be against the release of a replica from its owner.
	StepSurvey Step = "Survey"
	// StepSurge is to release it, which makes its owner create the replacement.
	StepSurge Step = "Surge"
	// StepFlee is to release a replica on a node that departs, without a proof of capacity.
	StepFlee Step = "Flee"
	// StepHold is to hold it back because of what was read since the proof.
	StepHold Step = "Hold"
	// StepReport is to prove that the replica could move.
	StepReport Step = "Report"
	// StepProvision is to create a placeholder for the replica.
	StepProvision Step = "Provision"
	// StepDrop is to delete it: no replica needs it any more.
	StepDrop Step = "Drop"
	// StepFail is to delete it and to rest: it was lost, or has not led to a move in time.
	StepFail Step = "Fail"
	// StepRest is to do nothing more about the workload.
	StepRest Step = "Rest"
)

// Next returns what is done about the placeholder of a replica, and the verdict
// about that replica: every check is made again, but for the budgets and paces,
// in which it has its place already, and for capacity by plain numbers, which it takes itself.
func (in *Input) Next(replica types.UID, h Holder, timeout time.Duration) (Step, Verdict) {
	if in.flees(replica) {
		// The replica is lost in any case, and the replacement takes the capacity once it is.
		v := Verdict{Reason: ReasonProvisioning, Message: "the node of the replica departs", Target: h.Target}
		if stays := in.stays(); stays.Reason != nil && stays.Reason.DropsPlaceholder || h.Lost || !in.Provisions() {
			return StepDrop, v
		}
		return StepWait, v
	}
	v := in.about(replica)
	switch {
	case !in.Provisions(), !in.settled(replica), v.Reason.DropsPlaceholder, v.Pod != nil && v.Target != h.Target:
		return StepDrop, v
	case h.Lost:
		return StepFail, v
	case h.Running && v.Reason == ReasonMove:
		return StepMove, v
	case in.Cluster.Now.Sub(h.Created) >= timeout:
		return StepFail, v
	}
	return StepWait, v
}

// settled reports whether a replica is there, on a node that stays.
func (in *Input) settled(replica types.UID) bool {
	return slices.ContainsFunc(in.Group.Assignments,
		func(s clusterstate.Assignment) bool { return s.Pod.UID == replica && s.Place == clusterstate.Settled })
}

// flees reports whether a replica is there, on a node that is about to go.
func (in *Input) flees(replica types.UID) bool {
	return slices.ContainsFunc(in.Group.Assignments,
		func(s clusterstate.Assignment) bool { return s.Pod.UID == replica && departs(&s) })
}

// about is the verdict about one replica that has a placeholder.
func (in *Input) about(replica types.UID) Verdict {
	alone := *in
	alone.History.InFlight, alone.Cluster.InFlight, alone.Cluster.Reserved = 0, 0, 0
	alone.History.Pace.Held, alone.Cluster.Pace.Held = 0, 0
	alone.placeless, alone.MayFit = true, func(capacity.Type, *clusterstate.Pod) bool { return true }
	if alone.Skip[string(replica)].Reason == ReasonProvisioning {
		alone.Skip = maps.Clone(alone.Skip)
		delete(alone.Skip, string(replica))
	}
	return alone.Of(replica)
}

// Of is the verdict about one replica, or about the workload where that holds for all of them.
func (in *Input) Of(replica types.UID) Verdict {
	for s, v := range in.each {
		if s.Pod == nil || s.Pod.UID == replica {
			return v
		}
	}
	return Verdict{Reason: ReasonOnTarget}
}
