// SPDX-License-Identifier: Apache-2.0

// Package policystate has what other plugins use of the policy that governs a pod in its scheduling cycle. The plugin
// SchedulingPolicy, which must come before them, writes it in PreFilter.
package policystate

import fwk "k8s.io/kube-scheduler/framework"

// Key finds the policy in CycleState. An interface constant would be boxed on every read.
const Key fwk.StateKey = "PreFilterSchedulingPolicy"

// Policy is the policy of a cycle.
type Policy interface {
	fwk.StateData
	// Packs reports whether nodes that are used most score highest.
	Packs() bool
}

// Read returns the policy that governs the pod of a cycle, nil if none does.
func Read(state fwk.CycleState) Policy {
	data, err := state.Read(Key)
	if err != nil {
		return nil
	}
	p, _ := data.(Policy)
	return p
}
