// SPDX-License-Identifier: Apache-2.0

package split

import (
	"maps"
	"math/bits"
)

// Slots is a set of slot numbers that returns the lowest free one in constant amortized time. The zero value is empty.
// It is not safe for concurrent use.
//
// Its memory is proportional to the number of slots in it, whatever their numbers are: a tenant can set any slot on a
// pod.
type Slots struct {
	// words has a bit per slot. It covers at most about twice as many slots as the set has.
	words []uint64
	// far has, by index, the words beyond those.
	far map[int]uint64
	// full is the number of leading words without a free slot: where the search starts.
	full int
	n    int
}

const (
	wordBits = 64
	// nearWords is the minimum number of words that a set covers.
	nearWords = 4
)

// Len returns the number of slots in the set.
func (s *Slots) Len() int { return s.n }

// Has reports whether a slot is taken.
func (s *Slots) Has(slot int) bool {
	w := slot / wordBits
	if slot >= 0 && w < len(s.words) {
		return s.words[w]&(1<<(slot%wordBits)) != 0
	}
	return s.hasFar(slot)
}

func (s *Slots) hasFar(slot int) bool {
	return slot >= 0 && s.far[slot/wordBits]&(1<<(slot%wordBits)) != 0
}

// Take adds a slot and reports whether it was free. A number below 0 or above MaxSlot is not a slot, and is never free.
func (s *Slots) Take(slot int) bool {
	if slot < 0 || slot > MaxSlot {
		return false
	}
	w, bit := slot/wordBits, uint64(1)<<(slot%wordBits)
	for w >= len(s.words) {
		if w >= nearWords+2*s.n/wordBits {
			return s.takeFar(w, bit)
		}
		s.cover()
	}
	if s.words[w]&bit != 0 {
		return false
	}
	s.words[w] |= bit
	s.n++
	for s.full < len(s.words) && s.words[s.full] == ^uint64(0) {
		s.full++
	}
	return true
}

func (s *Slots) takeFar(w int, bit uint64) bool {
	if s.far[w]&bit != 0 {
		return false
	}
	if s.far == nil {
		s.far = map[int]uint64{}
	}
	s.far[w] |= bit
	s.n++
	return true
}

// cover adds a word.
func (s *Slots) cover() {
	next := len(s.words)
	s.words = append(s.words, s.far[next])
	delete(s.far, next)
}

// Release removes a slot and reports whether it was taken.
func (s *Slots) Release(slot int) bool {
	w := slot / wordBits
	if slot < 0 || w >= len(s.words) {
		return s.releaseFar(slot)
	}
	bit := uint64(1) << (slot % wordBits)
	if s.words[w]&bit == 0 {
		return false
	}
	s.words[w] &^= bit
	s.n--
	s.full = min(s.full, w)
	return true
}

func (s *Slots) releaseFar(slot int) bool {
	if !s.hasFar(slot) {
		return false
	}
	w := slot / wordBits
	if s.far[w] &^= 1 << (slot % wordBits); s.far[w] == 0 {
		delete(s.far, w)
	}
	s.n--
	return true
}

// Lowest returns the lowest free slot, MaxSlot+1 if there is none.
func (s *Slots) Lowest() int {
	for w := s.full; w < len(s.words); w++ {
		if free := ^s.words[w]; free != 0 {
			return w*wordBits + bits.TrailingZeros64(free)
		}
	}
	w := len(s.words)
	for s.far[w] == ^uint64(0) {
		w++
	}
	return w*wordBits + bits.TrailingZeros64(^s.far[w])
}

// CopyFrom makes s equal to other, reusing its memory.
func (s *Slots) CopyFrom(other *Slots) {
	s.words = append(s.words[:0], other.words...)
	if len(s.far) > 0 || len(other.far) > 0 {
		s.far = maps.Clone(other.far)
	}
	s.full, s.n = other.full, other.n
}
