// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"cmp"
	"slices"

	"berth.dev/berth/internal/capacity"
)

// Count is how many replicas of a group run on each type.
type Count struct {
	Spot, OnDemand, Unknown int
}

// Total is the size of the group.
func (c Count) Total() int { return c.Spot + c.OnDemand + c.Unknown }

// Add counts one replica more on a type.
func (c *Count) Add(t capacity.Type) {
	switch t {
	case capacity.Spot:
		c.Spot++
	case capacity.OnDemand:
		c.OnDemand++
	default:
		c.Unknown++
	}
}

// CountOf counts the seats of a group by the type they run on.
func CountOf(seats []Seat) Count {
	var c Count
	for _, s := range seats {
		c.Add(s.On)
	}
	return c
}

// Exact reports whether the counts are the split for their total.
func (m Mix) Exact(c Count) bool {
	return c.Unknown == 0 && c.Spot == m.Spot(c.Total())
}

// WrongSide returns the fewest seats that would have to move to the other type
// (or, from a node of unknown type, to a known one) for the group to have its
// exact split. Borrowed seats go first, then the highest slots: the order in
// which a scale-down would remove them.
func WrongSide(m Mix, seats []Seat) []Seat {
	c := CountOf(seats)
	spareSpot := c.Spot - m.Spot(c.Total())
	spareOnDemand := c.OnDemand - m.OnDemand(c.Total())
	order := slices.SortedFunc(slices.Values(seats), func(a, b Seat) int {
		if a.Borrowed() != b.Borrowed() {
			if a.Borrowed() {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Slot, a.Slot)
	})
	var wrong []Seat
	for _, s := range order {
		switch {
		case s.On == capacity.Unknown:
			wrong = append(wrong, s)
		case s.On == capacity.Spot && spareSpot > 0:
			spareSpot--
			wrong = append(wrong, s)
		case s.On == capacity.OnDemand && spareOnDemand > 0:
			spareOnDemand--
			wrong = append(wrong, s)
		}
	}
	return wrong
}
