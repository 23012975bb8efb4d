// SPDX-License-Identifier: Apache-2.0

package cyclestate

import fwk "k8s.io/kube-scheduler/framework"

// PolicyKey finds the SchedulingPolicy that governs a pod in CycleState. The plugin SchedulingPolicy, which must come before its
// readers, writes it in PreFilter.
const PolicyKey fwk.StateKey = "PreFilterSchedulingPolicy"

// Policy is the policy of a cycle.
type Policy interface {
	fwk.StateData
	// Packs reports whether nodes that are used most score highest.
	Packs() bool
}

// ReadPolicy returns the policy that governs the pod of a cycle, nil if none does.
func ReadPolicy(state fwk.CycleState) Policy {
	data, err := state.Read(PolicyKey)
	if err != nil {
		return nil
	}
	p, _ := data.(Policy)
	return p
}
