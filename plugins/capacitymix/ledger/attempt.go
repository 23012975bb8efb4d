// SPDX-License-Identifier: Apache-2.0

package ledger

import "time"

// Stage determines which nodes a pending pod is tried on. A pod that finds no free capacity
// moves on to the next stage at once.
type Stage uint8

const (
	// StageSample tries a small sample of the nodes of the slot's type.
	StageSample Stage = iota
	// StageType tries all nodes of the slot's type.
	StageType
	// StageAhead tries all nodes of the other type, for a slot of that type
	// that the group will have once a rollout has grown it.
	StageAhead
	// StageBorrow tries the nodes of both types. Where it fails, preemption has
	// its turn, on nodes of the slot's type only.
	StageBorrow
	// StagePreempt tries all nodes of the slot's type, of a pod that was
	// nominated to one or has no slot to take ahead of its turn; where it fails,
	// preemption has its turn, on nodes of that type only.
	StagePreempt
)

// String is the name of the stage in logs and metrics.
func (s Stage) String() string {
	return [...]string{"sample", "type", "ahead", "borrow", "preempt"}[s]
}

// Attempt is how far the search for a node has come for a pod on its slot. The
// zero value is a search that has not begun.
type Attempt struct {
	Stage Stage
	// NoCapacitySince is when no node of the slot's type was first found to have
	// capacity, zero if that has not been found.
	NoCapacitySince time.Time
	// TypeChanged: the slot's type changed while the pod was waiting. What the
	// pod's condition has of its wait is about the other type.
	TypeChanged bool
	// PreemptedAt is when preemption had its turn and may have chosen a node for
	// the pod, zero if it had no turn since the search began.
	PreemptedAt time.Time
	// Below bounds the slots of StageAhead: the size the group will have.
	Below int
}
