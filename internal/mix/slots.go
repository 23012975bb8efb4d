// SPDX-License-Identifier: Apache-2.0

package mix

import "math/bits"

// Slots is a set of slot numbers that answers "which is the lowest free one"
// in constant amortised time. The zero value is empty. Not safe for concurrent use.
type Slots struct {
	words []uint64
	// full is the number of leading words without a free slot: where the search starts.
	full int
	n    int
}

const wordBits = 64

// Len returns how many slots are taken.
func (s *Slots) Len() int { return s.n }

// Has reports whether a slot is taken.
func (s *Slots) Has(slot int) bool {
	w := slot / wordBits
	return slot >= 0 && w < len(s.words) && s.words[w]&(1<<(slot%wordBits)) != 0
}

// Take marks a slot as taken and reports whether it was free. Slots must not be negative.
func (s *Slots) Take(slot int) bool {
	if s.Has(slot) {
		return false
	}
	w := slot / wordBits
	for w >= len(s.words) {
		s.words = append(s.words, 0)
	}
	s.words[w] |= 1 << (slot % wordBits)
	s.n++
	for s.full < len(s.words) && s.words[s.full] == ^uint64(0) {
		s.full++
	}
	return true
}

// Release marks a slot as free and reports whether it was taken.
func (s *Slots) Release(slot int) bool {
	if !s.Has(slot) {
		return false
	}
	w := slot / wordBits
	s.words[w] &^= 1 << (slot % wordBits)
	s.n--
	s.full = min(s.full, w)
	return true
}

// Lowest returns the lowest free slot.
func (s *Slots) Lowest() int {
	for w := s.full; w < len(s.words); w++ {
		if free := ^s.words[w]; free != 0 {
			return w*wordBits + bits.TrailingZeros64(free)
		}
	}
	return len(s.words) * wordBits
}

// CopyFrom makes s equal to other, reusing its memory.
func (s *Slots) CopyFrom(other *Slots) {
	s.words = append(s.words[:0], other.words...)
	s.full, s.n = other.full, other.n
}
