// SPDX-License-Identifier: Apache-2.0

package clusterstate

import "berth.dev/berth/internal/mix/split"

// Replacements has the slots that the replacements of a group's replicas will claim. It is for as long as the group is not changed.
type Replacements struct {
	group  *Group
	joiner *split.Joiner
	// shared are the slots that more than one pod holds.
	shared map[int]bool
}

// Replacements returns those of a group.
func (g *Group) Replacements() *Replacements {
	r := &Replacements{group: g, joiner: g.Joiner(nil), shared: map[int]bool{}}
	var seen split.Slots
	for _, slot := range g.Taken {
		seen.Take(slot)
	}
	for i := range g.Assignments {
		if slot := g.Assignments[i].Slot; !seen.Take(slot) {
			r.shared[slot] = true
		}
	}
	return r
}

// Slot is the slot that the replacement of a replica will claim: the one that the scheduler gives to one more pod once the replica has
// gone, unless a slot comes with the pod's identity.
func (r *Replacements) Slot(victim *Assignment) int {
	switch {
	case r.group.Identity:
		return victim.Slot
	case r.shared[victim.Slot]:
		return r.joiner.Replacement(split.NoSlot, r.group.AnyOrder)
	}
	return r.joiner.Replacement(victim.Slot, r.group.AnyOrder)
}
