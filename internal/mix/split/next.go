// SPDX-License-Identifier: Apache-2.0

package split

import (
	"math/bits"

	"berth.dev/berth/internal/mix/capacity"
)

// MissingType returns the type of which a group of n pods, so many of them on spot slots, lacks one for the split of n+1. Where pods
// are removed in any order, the lowest free slot can be of the other type, and the group would stay off by one until it is moved.
//
// If the spot pods are too few, the on-demand ones are not: the minimum of these is kept.
func (m Mix) MissingType(n, spot int) capacity.Type {
	if spot < m.Spot(n+1) {
		return capacity.Spot
	}
	return capacity.OnDemand
}

// SpotSlots counts the slots of a set that are of type spot.
func (m Mix) SpotSlots(s *Slots) (n int) {
	count := func(w int, word uint64) {
		for ; word != 0; word &= word - 1 {
			if m.TypeOf(w*wordBits+bits.TrailingZeros64(word)) == capacity.Spot {
				n++
			}
		}
	}
	for w, word := range s.words {
		count(w, word)
	}
	for w, word := range s.far {
		count(w, word)
	}
	return n
}

// Joiner gives slots to pods that join a group one after the other.
type Joiner struct {
	mix   Mix
	taken *Slots
	spot  int
	tried cursors
}

// NewJoiner returns a Joiner of a group that holds some slots. It takes those that it gives.
func NewJoiner(m Mix, taken *Slots) *Joiner {
	return &Joiner{mix: m, taken: taken, spot: m.SpotSlots(taken)}
}

// Join takes the slot of one more pod: the lowest free slot or, where pods are removed in any order, the lowest free one of the
// type that is missing.
func (j *Joiner) Join(anyOrder bool) int {
	slot, n := j.taken.Lowest(), j.taken.Len()
	if anyOrder && slot != n { // without a gap both are the same
		t := j.mix.MissingType(n, j.spot)
		if free, found := j.mix.LowestOf(t, j.taken, j.tried.of(t), MaxSlot+1); found {
			slot = free
		}
	}
	j.take(slot)
	return slot
}

// Replacement is the slot of a pod that joins once the only pod of a slot has gone, NoSlot for no pod. Nothing is taken.
func (j *Joiner) Replacement(gone int, anyOrder bool) int {
	tried := j.tried
	j.tried = cursors{} // a slot below them is free for once
	j.release(gone)
	slot := j.Join(anyOrder)
	j.release(slot)
	j.take(gone)
	j.tried = tried
	return slot
}

func (j *Joiner) take(slot int) {
	if j.taken.Take(slot) && j.mix.TypeOf(slot) == capacity.Spot {
		j.spot++
	}
}

func (j *Joiner) release(slot int) {
	if j.taken.Release(slot) && j.mix.TypeOf(slot) == capacity.Spot {
		j.spot--
	}
}
