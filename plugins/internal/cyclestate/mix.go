// SPDX-License-Identifier: Apache-2.0

package cyclestate

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// MixKey finds the slot of a pod in CycleState. The plugin CapacityMix writes it in PreFilter or, for a pod without a slot, in Reserve.
const MixKey fwk.StateKey = "PreFilterCapacityMix"

// Slot is the slot of a pod that is being placed, or that it has none.
type Slot interface {
	fwk.StateData
	// Confirm returns an error if the pod may not be bound to the node that it was placed on, because its mix changed, a mix came that
	// gives it a slot, or its slot was taken since. A plugin that binds pods long after they were placed, or together with others,
	// calls it before it commits.
	Confirm(pod *corev1.Pod) error
}

// committedKey is in the cycle of a pod whose group is committed.
const committedKey fwk.StateKey = "CommittedGroup"

type committed struct{}

func (c committed) Clone() fwk.StateData { return c }

// Commit notes that the group of a pod was committed after the slots of all its members were confirmed: they are bound whatever
// becomes of their mix, as none of them can be given up any more.
func Commit(state fwk.CycleState) { state.Write(committedKey, committed{}) }

// Committed reports whether the group of a pod was committed.
func Committed(state fwk.CycleState) bool {
	_, err := state.Read(committedKey)
	return err == nil
}

// Confirm confirms the slot of a pod, or that it has none.
func Confirm(state fwk.CycleState, pod *corev1.Pod) error {
	if data, err := state.Read(MixKey); err == nil {
		if s, ok := data.(Slot); ok {
			return s.Confirm(pod)
		}
	}
	return nil
}
