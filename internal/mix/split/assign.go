// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

// NoSlot as Pod.Slot means that the pod brings no slot of its own.
const NoSlot = -1

// MaxSlot is the highest slot a pod can bring with it. A larger number, from a
// hand-written annotation say, is no slot: sets of slots stay small.
const MaxSlot = 1<<20 - 1

// Pod is one replica of a group, as far as slots are concerned.
type Pod struct {
	// ID is unique in the group; a UID.
	ID string
	// Created orders pods by age; a Unix time.
	Created int64
	// Slot is the slot the pod holds by its own claim, NoSlot if it has none.
	Slot int
	// On is the type of the node it runs on, capacity.Unknown where that is not known.
	On capacity.Type
}

// Seat is a replica on its slot.
type Seat struct {
	Pod
	// Wants is the type of the slot.
	Wants capacity.Type
}

// Borrowed reports whether the pod does not run on the type of its slot. A pod
// on a node of unknown type always does: unknown satisfies nothing.
func (s Seat) Borrowed() bool { return s.On != s.Wants }

// Older orders pods by age, ties by ID: the order in which they choose.
func Older(a, b Pod) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
}

// Assign seats every pod of a group. Pods with a slot of their own keep it; of
// several with the same slot the oldest does. The others, oldest first, take
// the lowest free slot of the type they run on, else the lowest free slot. The
// result is sorted by slot and does not depend on the order of the pods.
func Assign(m Mix, pods []Pod) []Seat {
	sorted := pods
	if !slices.IsSortedFunc(pods, Older) {
		sorted = slices.SortedFunc(slices.Values(pods), Older)
	}
	var taken Slots
	seats := make([]Seat, 0, len(pods))
	floating := sorted[:0:0]
	for _, p := range sorted {
		if p.Slot < 0 || p.Slot > MaxSlot || !taken.Take(p.Slot) {
			floating = append(floating, p)
			continue
		}
		seats = append(seats, Seat{Pod: p, Wants: m.TypeOf(p.Slot)})
	}
	m.Float(&taken, floating, func(p Pod, slot int) {
		p.Slot = slot
		seats = append(seats, Seat{Pod: p, Wants: m.TypeOf(slot)})
	})
	slices.SortFunc(seats, func(a, b Seat) int { return cmp.Compare(a.Slot, b.Slot) })
	return seats
}

// Float seats pods without a slot, which must be sorted by Older, on the slots
// that are not taken, and takes those.
//
// A pod on a node of unknown type sits like a spot pod: an on-demand slot that
// it filled would be missing from the floor.
func (m Mix) Float(taken *Slots, sorted []Pod, seat func(p Pod, slot int)) {
	var next [2]int // per type: how many of its slots have been tried
	for _, p := range sorted {
		t, i := capacity.Spot, 0
		if p.On == capacity.OnDemand {
			t, i = capacity.OnDemand, 1
		}
		slot, found := m.SlotOf(t, next[i])
		for found && slot <= MaxSlot && taken.Has(slot) {
			next[i]++
			slot, found = m.SlotOf(t, next[i])
		}
		if !found || slot > MaxSlot {
			slot = taken.Lowest()
		}
		taken.Take(slot)
		seat(p, slot)
	}
}

// Next returns the slot that a new pod of the group claims: the lowest free one.
func Next(m Mix, pods []Pod) int {
	var taken Slots
	for _, s := range Assign(m, pods) {
		taken.Take(s.Slot)
	}
	return taken.Lowest()
}
