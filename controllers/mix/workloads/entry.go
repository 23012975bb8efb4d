// SPDX-License-Identifier: Apache-2.0

// Package workloads holds in memory, for each workload revision, how it has satisfied its mix over time and what the
// rebalancer decided about it. The controllers of CapacityMixes share it. A new leader starts with an empty one.
package workloads

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
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
	// those, nil where an earlier leader began the move. They tell its replacement from replicas that were there.
	Newest int64
	Before *[]clusterstate.Assignment
	// DoubtUntil is set where it is not known whether the API server carried the eviction out: its answer was lost, or an
	// earlier leader ended before it. A pod that lives on until then was not evicted.
	DoubtUntil time.Time
	// Slow is set once it has taken so long that it does not count for other namespaces.
	Slow bool
	// Placeholder is the UID of one that keeps the capacity until the replica is gone; "" if there is none, or no more.
	Placeholder types.UID
}

// Doubtful reports whether it is not known that the pod was evicted.
func (m *Move) Doubtful() bool { return !m.DoubtUntil.IsZero() }

// Placeholder is a pod that holds capacity for the replacement of a replica, or asks
// for it. The replica is being moved, but not evicted yet.
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
	rebalance.Holder
}

// Entry is what is remembered of one workload revision.
type Entry struct {
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
	// all are. Where the owner does not tell its replicas, nothing more moves until so many are available again.
	Had int
	// MinReady is that of an owner that the cluster state does not watch.
	MinReady time.Duration
	// Scaled is set where Had follows the scale subresource of the owner.
	Scaled bool
	// Restored is set where it is what an earlier leader recorded, and the workload was not reconciled yet.
	Restored bool
	// Placeholders hold capacity for replicas that are to move next.
	Placeholders []Placeholder
	// Verdict is the last decision.
	Verdict rebalance.Verdict
	// Settings are what applied to it.
	Settings rebalance.Settings
	// Held are the replicas for which capacity was not proven or whose eviction was
	// refused, by UID, with the time until which they are left alone.
	Held map[string]Hold
	// Unproven is how many evaluations in a row found no replacement that the owner would create and the API server admit.
	Unproven int32
	// Reported is the reason that the last event about it named.
	Reported rebalance.Reason
}

// InFlight is how many places in the budgets the workload takes.
func (e *Entry) InFlight() int { return len(e.Moves) + len(e.Placeholders) }

// standing counts what the workload takes of the budget of the cluster.
func (e *Entry) standing() (s rebalance.Standing) {
	for i := range e.Moves {
		add(&s, e.Moves[i].Slow)
	}
	for i := range e.Placeholders {
		add(&s, e.Placeholders[i].Slow)
	}
	return s
}

func add(s *rebalance.Standing, slow bool) {
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
	return e.Verdict.Reason == rebalance.ReasonOnTarget && e.InFlight() == 0 && e.Had == 0 && len(e.Held) == 0
}

// Version tells a CapacityMix from others, and its spec from former ones.
type Version struct {
	UID        types.UID
	Generation int64
}

// Decision is what was reconciled in a namespace.
type Decision struct {
	Namespace string
	// All are all CapacityMixes of the namespace, nil where only some of it was reconciled. They are the cache's.
	All map[string]*v1alpha1.CapacityMix
	// Mixes are the CapacityMixes whose status may be another one.
	Mixes map[string]bool
	// Groups are the workloads that were reconciled.
	Groups []policy.GroupKey
}

// Add adds another decision about the same namespace.
func (d *Decision) Add(o *Decision) {
	if o.All != nil {
		d.All = o.All
	}
	if d.Mixes == nil {
		d.Mixes = map[string]bool{}
	}
	maps.Copy(d.Mixes, o.Mixes)
	d.Groups = append(d.Groups, o.Groups...)
}

// Refusal is an eviction that the API server refused. It counts as a move that failed.
type Refusal struct {
	Reason  rebalance.Reason
	Message string
	// Labels are those of the pod, and By identifies what refused, with the budgets of such a pod.
	Labels map[string]string
	By     string
	// Failures and RetryAt are those of the workload before it was refused.
	Failures int32
	RetryAt  time.Time
}

// Hold is a verdict that stands for a while.
type Hold struct {
	Verdict rebalance.Verdict
	Until   time.Time
}
