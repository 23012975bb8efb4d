// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Move is a replica being moved: evicted, and its replacement not available yet.
type Move struct {
	UID             types.UID
	Namespace, Name string
	Started         time.Time
	// Target is the type that it was moved to, that of Slot then: the slot that its replacement was to claim. Unknown where an
	// earlier leader did not record it.
	Target capacity.Type
	Slot   int
	// Newest is when the newest of the replicas was created that there were then, a Unix time in seconds, and Before are
	// those, nil where an earlier leader began the move. They distinguish its replacement from replicas that were there.
	Newest int64
	Before *[]clusterstate.Assignment
	// DoubtUntil is set where it is not known whether the API server carried the eviction out: its answer was lost, or an
	// earlier leader ended before it. A pod that lives on until then was not evicted.
	DoubtUntil time.Time
	// Slow is set once it has taken so long that it does not count for other namespaces.
	Slow bool
	// Unit is the name of a unit of more than one pod that goes as a whole, and Size how many pods it has; "" and 0 for a pod.
	Unit string
	Size int
	// Released is set where the pod was not evicted but released, and runs until its replacement is available.
	Released bool
	// Requested is set where the eviction was requested by an EvictionRequest: the pod runs until a responder has it evicted.
	Requested bool
	// Placeholder is the UID of one that keeps the capacity until the replica is gone; "" if there is none, or no more.
	Placeholder types.UID
}

// Doubtful reports whether it is not known that the pod was evicted.
func (m *Move) Doubtful() bool { return !m.DoubtUntil.IsZero() }

// Placeholder is a pod that holds capacity for the replacement of a replica, or requests
// it. The replica is being moved, but not evicted yet.
type Placeholder struct {
	UID             types.UID
	Namespace, Name string
	// Replica is the UID of the replica, ReplicaName its name.
	Replica     types.UID
	ReplicaName string
	// Waits is what keeps the replica from being moved, other than capacity, "" for nothing.
	Waits string
	// Seen is set once the watch has shown it.
	Seen bool
	// Slow is that of a Move.
	Slow bool
	Holder
}

// verdict is that about its replica.
func (h *Placeholder) verdict() Verdict {
	return Verdict{
		Reason: ReasonProvisioning, Target: h.Target,
		Message: fmt.Sprintf("placeholder %s requests %s capacity for the replacement of pod %s", h.Name, h.Target, h.ReplicaName),
	}
}

// Entry is what is remembered of one workload revision.
type Entry struct {
	// KeptFromMoves and KeptFromFlight are what is against releases: for a move, and from a node that departs. Flights are when replicas
	// on such nodes are tried again, by UID; it is replaced rather than changed.
	KeptFromMoves, KeptFromFlight Kept
	Flights                       map[types.UID]time.Time
	// Unplaced is what keeps replicas on nodes that depart and wait, by the type of their replacements; it is replaced rather than changed.
	// Landing is until when the watch may not show the last ones that were released.
	Unplaced map[capacity.Type]Hold
	Landing  time.Time
	// Group is what was reconciled last, without the pods that were evicted. A Version of 0 has it reconciled again.
	Group clusterstate.Group
	// Mix is the name of its CapacityMix, "" if it gets its mix from elsewhere.
	Mix string
	// Spec is which version of the CapacityMix the settings are from.
	Spec Version
	// Selecting are the names of all CapacityMixes that select one of its pods, sorted; they are replaced rather than changed.
	Selecting []string
	// WrongSince and RollingSince are when it was first seen out of its mix, or in a rollout; zero: it is not.
	WrongSince, RollingSince time.Time
	// Failures is how many moves failed in a row, RetryAt when the next may be tried.
	Failures int32
	RetryAt  time.Time
	// FailedAt is when a move last failed that counts, zero if none did since this process leads.
	FailedAt time.Time
	// Refusal is why the last eviction was refused, zero if none was since the last move.
	Refusal Refusal
	// Moves are the replicas being moved.
	Moves []Move
	// Had is how many live pods there were before the first of the moves since when not all of them have been available, 0 if
	// all are. Where the owner does not report its replicas, nothing more moves until so many are available again.
	Had int
	// MinReady is that of an owner that the cluster state does not watch.
	MinReady time.Duration
	// Restart is what the operator of the pods does with a unit once one of its pods ends.
	Restart Restart
	// Scaled is set where Had follows the scale subresource of the owner.
	Scaled bool
	// Restored is set where it is what an earlier leader recorded, and the workload was not reconciled yet.
	Restored bool
	// Placeholders hold capacity for replicas that are to move next.
	Placeholders []Placeholder
	// Verdict is the last decision.
	Verdict Verdict
	// Settings are what applied to it.
	Settings Settings
	// Held are the replicas for which capacity was not proven or whose eviction was
	// refused, by UID, with the time until which they are left alone.
	Held map[string]Hold
	// Unproven is how many evaluations in a row found no replacement that the owner would create and the API server admit.
	Unproven int32
	// Reported is the reason that the last event about it named.
	Reported *Reason
}

// Places is how many places in the budgets a move takes: one for each pod.
func (m *Move) Places() int { return max(1, m.Size) }

// InFlight is how many places in the budgets the workload takes.
func (e *Entry) InFlight() int {
	n := len(e.Placeholders)
	for i := range e.Moves {
		n += e.Moves[i].Places()
	}
	return n
}

// Standing returns what the workload takes of the budget of the cluster.
func (e *Entry) Standing() (s Standing) {
	for i := range e.Moves {
		for range e.Moves[i].Places() {
			add(&s, e.Moves[i].Slow)
		}
	}
	for i := range e.Placeholders {
		add(&s, e.Placeholders[i].Slow)
	}
	return s
}

func add(s *Standing, slow bool) {
	if slow {
		s.Slow++
	} else {
		s.Fresh++
	}
}

// Settled reports whether nothing about the workload can change as long as its
// group and its mix do not: not by time, nor by what happens to other workloads
// or to nodes that it does not run on.
func (e *Entry) Settled() bool {
	return e.Verdict.Reason == ReasonOnTarget && e.InFlight() == 0 && e.Had == 0 && len(e.Held) == 0 && !e.leaves()
}

// leaves reports whether replicas run on a node that departs, and may leave it before it is gone.
func (e *Entry) leaves() bool {
	return (e.Settings.Strategy.Releases() || e.Settings.Provisioning == WithPlaceholder) &&
		slices.ContainsFunc(e.Group.Assignments, func(s clusterstate.Assignment) bool { return departs(&s) })
}

// Version identifies a CapacityMix and the generation of its spec.
type Version struct {
	UID        types.UID
	Generation int64
}

// Refusal is an eviction that the API server refused. It counts as a move that failed.
type Refusal struct {
	Reason  *Reason
	Message string
	// Labels are those of the pod, and By identifies what refused, with the budgets of such a pod.
	Labels map[string]string
	By     string
	// Failures and RetryAt are those of the workload before it was refused.
	Failures int32
	RetryAt  time.Time
}

// Hold is a verdict that is valid for a while.
type Hold struct {
	Verdict Verdict
	Until   time.Time
}

// Remembered returns what a new leader has of a workload: what the store has if the journal was read, else what was recorded of
// a workload that had no pods meanwhile, nil for nothing, and what the status of its mix has.
func Remembered(e Entry, recorded *Record, status Entry, now time.Time) Entry {
	if !e.Restored {
		e = Entry{}
		if recorded != nil {
			e = Recall(e, *recorded, now)
		}
	}
	e.Restored = false
	e.WrongSince, e.Failures = status.WrongSince, max(e.Failures, status.Failures)
	if status.RetryAt.After(e.RetryAt) {
		e.RetryAt = status.RetryAt
	}
	return e
}

// FromStatus is what the status of a mix has about a workload. The clock of its writer may be wrong, or a user wrote
// it: no time holds the workload for longer than this controller would. The groups of the roles of a mix have one name, and no more is
// known of one than what holds for all.
func FromStatus(w clusterstate.Workload, cm *v1alpha1.CapacityMix, now time.Time, maxBackoff time.Duration) (e Entry) {
	if cm == nil {
		return e
	}
	found := false
	for _, s := range cm.Status.Workloads {
		if s.Kind != w.Kind || s.Name != w.Name || s.Revision != w.Revision {
			continue
		}
		var one Entry
		if s.MixNotSatisfiedSince != nil {
			one.WrongSince = Clamp(s.MixNotSatisfiedSince.Time, now)
		}
		if s.RetryTime != nil {
			one.RetryAt = Clamp(s.RetryTime.Time, now.Add(maxBackoff))
		}
		one.Failures = ClampFailures(s.FailedMoves)
		if !found {
			e, found = one, true
			continue
		}
		e.heed(&one)
	}
	return e
}

// heed takes over of another entry what has a workload wait for longer.
func (e *Entry) heed(o *Entry) {
	if o.WrongSince.IsZero() || o.WrongSince.After(e.WrongSince) && !e.WrongSince.IsZero() {
		e.WrongSince = o.WrongSince
	}
	if e.Failures = max(e.Failures, o.Failures); o.RetryAt.After(e.RetryAt) {
		e.RetryAt = o.RetryAt
	}
}
