// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

// Count is the number of replicas of a group on each type.
type Count struct {
	Spot, OnDemand, Unknown int
}

// Total is the size of the group.
func (c Count) Total() int { return c.Spot + c.OnDemand + c.Unknown }

// Add counts one more replica on a type.
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

// CountOf counts the replicas of a group by the type they run on.
func CountOf(assignments []Assignment) Count {
	var c Count
	for _, s := range assignments {
		c.Add(s.On)
	}
	return c
}

// Exact reports whether the counts are the split for their total.
func (m Mix) Exact(c Count) bool {
	return c.Unknown == 0 && c.Spot == m.Spot(c.Total())
}

// WrongSide returns the smallest set of replicas that would have to move to the other type (or, from a node of unknown
// type, to a known one) for the group to have its exact split once n more replicas, which have no pod yet, have the
// lowest free slots. Borrowed replicas come first, then the highest slots: the order in which a scale-down would remove
// them. Its cost does not depend on n.
func WrongSide(m Mix, assignments []Assignment, n int) []Assignment {
	slots := make([]int, len(assignments))
	for i, s := range assignments {
		slots[i] = s.Slot
	}
	missing := absentOf(m, n, slots)
	c := CountOf(assignments)
	total := c.Total() + max(n, 0)
	spare := map[capacity.Type]int{
		capacity.Spot:     c.Spot + missing.from(0, capacity.Spot) - m.Spot(total),
		capacity.OnDemand: c.OnDemand + missing.from(0, capacity.OnDemand) - m.OnDemand(total),
	}
	order := slices.SortedFunc(slices.Values(assignments), func(a, b Assignment) int {
		if a.Borrowed() != b.Borrowed() {
			if a.Borrowed() {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Slot, a.Slot)
	})
	var wrong []Assignment
	for _, s := range order {
		left, known := spare[s.On]
		if known && !s.Borrowed() && left > 0 {
			// A missing replica with a higher slot moves to another slot first.
			left -= missing.from(s.Slot+1, s.On)
		}
		switch {
		case !known:
			wrong = append(wrong, s)
		case left > 0:
			spare[s.On]--
			wrong = append(wrong, s)
		}
	}
	return wrong
}
