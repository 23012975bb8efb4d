// SPDX-License-Identifier: Apache-2.0

package cyclestate

import fwk "k8s.io/kube-scheduler/framework"

// ReservationKey finds in CycleState the Reservations whose capacity a pod may use. The plugin Reservation, which must come before its
// readers, writes it in PreFilter.
const ReservationKey fwk.StateKey = "PreFilterReservation"

// Reserved is the state of a cycle.
type Reserved interface {
	fwk.StateData
	// Restricts reports whether the pod is tried on the nodes only where capacity is held for it.
	Restricts() bool
	// Annotations are those of the pod's Binding, nil if it uses no such capacity.
	Annotations() map[string]string
}

// ReadReserved returns the state of a cycle, nil if nothing is held for any pod.
func ReadReserved(state fwk.CycleState) Reserved {
	data, err := state.Read(ReservationKey)
	if err != nil {
		return nil
	}
	r, _ := data.(Reserved)
	return r
}
