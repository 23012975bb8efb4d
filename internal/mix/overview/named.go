// SPDX-License-Identifier: Apache-2.0

package overview

import "slices"

// Named are the workloads of a kind and a name: a rollout has one for each revision. A ReplicaSet is named by its revision, too.
func Named(all []Workload, kind, name string) []*Workload {
	var out []*Workload
	for i := range all {
		w := &all[i]
		if w.Kind == kind && w.Name == name || kind == "ReplicaSet" && w.Revision == name {
			out = append(out, w)
		}
	}
	return out
}

// severity orders the states of slots by how much they need an explanation.
var severity = []State{Borrowed, Pending, Departing, Unknown, InPlace}

// Foremost returns the pod of workloads that needs an explanation most, with the state of its slot, and how many pods there are. Of those
// in one state it is that of the lowest slot.
func Foremost(workloads []*Workload) (pod string, state State, pods int) {
	worst := len(severity)
	for _, w := range workloads {
		for i := range w.Slots {
			s := &w.Slots[i]
			if s.Pod == "" {
				continue
			}
			pods += max(1, len(s.Pods))
			if rank := slices.Index(severity, s.State); rank >= 0 && rank < worst {
				pod, state, worst = s.Pod, s.State, rank
			}
		}
	}
	return pod, state, pods
}

// MixNameOf is the name of the CapacityMix that governs workloads, "" if none or several do.
func MixNameOf(workloads []*Workload) string {
	name := ""
	for _, w := range workloads {
		own, ok := cutSource(w.Source)
		if !ok || name != "" && name != own {
			return ""
		}
		name = own
	}
	return name
}
