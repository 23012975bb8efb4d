// SPDX-License-Identifier: Apache-2.0

// Package mixstate has what other plugins use of the slot that a pod is placed for in its scheduling cycle. The plugin
// CapacityMix writes it in PreFilter.
package mixstate

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Key finds the slot in CycleState. An interface constant would be boxed on every read.
const Key fwk.StateKey = "PreFilterCapacityMix"

// Slot is the slot of a pod that is being placed.
type Slot interface {
	fwk.StateData
	// Confirm returns an error if the pod may not be bound to the node that it was placed on, because its mix changed or its slot was
	// taken since. A plugin that binds pods long after they were placed, or together with others, calls it before it commits.
	Confirm(pod *corev1.Pod) error
}

// Confirm confirms the slot of a pod, if it has one.
func Confirm(state fwk.CycleState, pod *corev1.Pod) error {
	if data, err := state.Read(Key); err == nil {
		if s, ok := data.(Slot); ok {
			return s.Confirm(pod)
		}
	}
	return nil
}
