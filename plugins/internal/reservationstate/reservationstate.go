// SPDX-License-Identifier: Apache-2.0

// Package reservationstate has what other plugins use of the Reservations whose capacity a pod may use. The plugin
// Reservation, which must come before them, writes it in PreFilter.
package reservationstate

import fwk "k8s.io/kube-scheduler/framework"

// Key finds the state in CycleState. An interface constant would be boxed on every read.
const Key fwk.StateKey = "PreFilterReservation"

// Reserved is the state of a cycle.
type Reserved interface {
	fwk.StateData
	// Restricts reports whether the pod is tried on the nodes only where capacity is held for it.
	Restricts() bool
	// Annotations are those of the pod's Binding, nil if it uses no such capacity.
	Annotations() map[string]string
}

// Read returns the state of a cycle, nil if nothing is held for any pod.
func Read(state fwk.CycleState) Reserved {
	data, err := state.Read(Key)
	if err != nil {
		return nil
	}
	r, _ := data.(Reserved)
	return r
}
