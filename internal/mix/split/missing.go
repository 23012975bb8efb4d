// SPDX-License-Identifier: Apache-2.0

package split

import (
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

// absent are the replicas of a group that have no pod yet. They will claim the lowest free slots. Their number is set
// by users and may be two billion, so they are counted and never listed.
type absent struct {
	mix Mix
	// taken are the slots of existing pods, ascending. spot[i] of the first i are of type spot.
	taken, spot []int
	// end is the slot after the last one that they will claim.
	end int
}

// absentOf returns n absent replicas in addition to the pods with some slots.
func absentOf(m Mix, n int, slots []int) absent {
	a := absent{mix: m}
	if n <= 0 {
		return a
	}
	a.taken, a.end = slices.Compact(slices.Sorted(slices.Values(slots))), n
	a.spot = make([]int, len(a.taken)+1)
	for i, slot := range a.taken {
		if slot < a.end {
			a.end++
		}
		if a.spot[i+1] = a.spot[i]; m.TypeOf(slot) == capacity.Spot {
			a.spot[i+1]++
		}
	}
	return a
}

// from counts the absent replicas of a type whose slots are not below a bound.
func (a absent) from(slot int, t capacity.Type) int {
	if slot >= a.end {
		return 0
	}
	first, _ := slices.BinarySearch(a.taken, slot)
	end, _ := slices.BinarySearch(a.taken, a.end)
	held := a.spot[end] - a.spot[first]
	if t == capacity.OnDemand {
		held = end - first - held
	}
	return a.mix.slotsOf(t, a.end) - a.mix.slotsOf(t, slot) - held
}

// slotsOf counts the slots of a type below a bound.
func (m Mix) slotsOf(t capacity.Type, end int) int {
	if t == capacity.Spot {
		return m.Spot(end)
	}
	return m.OnDemand(end)
}

// Missing counts, by the type of their slots, n replicas that have no pod yet, in addition to pods with some slots. Its
// cost does not depend on n.
func (m Mix) Missing(n int, slots []int) Count {
	a := absentOf(m, n, slots)
	return Count{Spot: a.from(0, capacity.Spot), OnDemand: a.from(0, capacity.OnDemand)}
}
