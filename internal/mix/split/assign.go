// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

// NoSlot as Pod.Slot means that the pod has no slot of its own.
const NoSlot = -1

// MaxSlot is the highest slot that a pod can claim. A larger number, such as from a hand-written annotation, is not a
// slot, so that sets of slots stay small.
const MaxSlot = 1<<20 - 1

// Pod is one replica of a group, as far as slots are concerned.
type Pod struct {
	// ID is unique in the group: a UID.
	ID string
	// Created orders pods by age: a Unix time.
	Created int64
	// Slot is the slot that the pod claims, NoSlot if it claims none.
	Slot int
	// On is the type of the pod's node, capacity.Unknown if it is unknown.
	On capacity.Type
}

// Assignment is a replica with its slot.
type Assignment struct {
	Pod
	// Wants is the type of the slot.
	Wants capacity.Type
}

// Borrowed reports whether the pod does not run on the type of its slot. A pod on a node of unknown type is always
// borrowed.
func (s Assignment) Borrowed() bool { return s.On != s.Wants }

// Older orders pods by age, ties by ID: the order in which they are assigned.
func Older(a, b Pod) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
}

// Assign assigns a slot to every pod of a group. Pods that claim a slot keep it. If several claim the same slot, the
// oldest keeps it. The others, oldest first, get the lowest free slot of the type they run on, otherwise the lowest
// free slot. The result is sorted by slot and does not depend on the order of the pods.
func Assign(m Mix, pods []Pod) []Assignment {
	sorted := pods
	if !slices.IsSortedFunc(pods, Older) {
		sorted = slices.SortedFunc(slices.Values(pods), Older)
	}
	var taken Slots
	assignments := make([]Assignment, 0, len(pods))
	unassigned := sorted[:0:0]
	for _, p := range sorted {
		if p.Slot < 0 || p.Slot > MaxSlot || !taken.Take(p.Slot) {
			unassigned = append(unassigned, p)
			continue
		}
		assignments = append(assignments, Assignment{Pod: p, Wants: m.TypeOf(p.Slot)})
	}
	m.Fill(&taken, unassigned, func(p Pod, slot int) {
		p.Slot = slot
		assignments = append(assignments, Assignment{Pod: p, Wants: m.TypeOf(slot)})
	})
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Compare(a.Slot, b.Slot) })
	return assignments
}

// Fill assigns free slots to pods without a slot, which must be sorted by Older, and takes the slots.
//
// A pod on a node of unknown type is assigned like a spot pod: on an on-demand slot it would be missing from
// minOnDemand.
func (m Mix) Fill(taken *Slots, sorted []Pod, assignment func(p Pod, slot int)) {
	var tried cursors
	for _, p := range sorted {
		t := capacity.Spot
		if p.On == capacity.OnDemand {
			t = capacity.OnDemand
		}
		slot, found := m.LowestOf(t, taken, tried.of(t), MaxSlot+1)
		if !found {
			slot = taken.Lowest()
		}
		taken.Take(slot)
		assignment(p, slot)
	}
}

// Close moves pods from slots that n replicas do not have, the lowest first, to the lowest free slots of the same type
// that they have. assignments are sorted by slot, before and after. A pod for whose type none of these slots is free keeps
// its own.
func (m Mix) Close(assignments []Assignment, n int) {
	if len(assignments) == 0 || assignments[len(assignments)-1].Slot < n {
		return
	}
	var taken Slots
	for _, s := range assignments {
		taken.Take(s.Slot)
	}
	var tried cursors
	for i := range assignments {
		s := &assignments[i]
		if s.Slot < n {
			continue
		}
		if slot, found := m.LowestOf(s.Wants, &taken, tried.of(s.Wants), n); found {
			taken.Take(slot)
			s.Slot = slot
		}
	}
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Compare(a.Slot, b.Slot) })
}

// LowestOf returns the lowest slot of a type below a bound that is not taken. from is how many slots of the type are known
// to be taken, and is kept: while slots are only taken, the next search begins there.
func (m Mix) LowestOf(t capacity.Type, taken *Slots, from *int, below int) (slot int, found bool) {
	for ; ; *from++ {
		slot, found = m.SlotOf(t, *from)
		if !found || slot >= below {
			return NoSlot, false
		}
		if !taken.Has(slot) {
			return slot, true
		}
	}
}

// cursors are how many slots of each type are known to be taken.
type cursors struct{ spot, onDemand int }

func (c *cursors) of(t capacity.Type) *int {
	if t == capacity.OnDemand {
		return &c.onDemand
	}
	return &c.spot
}
