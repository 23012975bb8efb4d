// SPDX-License-Identifier: Apache-2.0

package split

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
)

func drawMix(t *rapid.T) Mix {
	m := New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 5).Draw(t, "floor"))
	if rapid.Bool().Draw(t, "bounded") {
		m.MaxSpot = rapid.Int32Range(0, 20).Draw(t, "max")
	}
	return m
}

// Pods that are removed in any order are replaced by the type that is missing: each pod that joins brings the group as close to its
// split as one pod can, the minimum of on-demand pods first, and a group that is as large as before is exact again.
func TestAGroupIsExactWhenItIsAsLargeAsBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, taken := drawMix(t), &Slots{}
		j := NewJoiner(m, taken)
		for range rapid.IntRange(0, 60).Draw(t, "pods") {
			j.Join(true)
		}
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			size := taken.Len()
			for slot := range MaxSlot {
				if taken.Len() == 0 || slot > 200 {
					break
				}
				if taken.Has(slot) && rapid.Bool().Draw(t, "leaves") {
					taken.Release(slot)
				}
			}
			j := NewJoiner(m, taken)
			for n := taken.Len(); n < size; n++ {
				spot := m.SpotSlots(taken)
				slot := j.Join(true)
				require.Equal(t, n+1, taken.Len(), "the slot was free")
				require.Equal(t, spot < m.Spot(n+1), m.TypeOf(slot) == capacity.Spot)
			}
			require.Equal(t, m.Spot(size), m.SpotSlots(taken), "of %d at %s", size, m)
		}
	})
}

// One pod at a time is removed and replaced: the group is never off.
func TestAReplacedPodLeavesTheGroupExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, taken := drawMix(t), &Slots{}
		size := rapid.IntRange(1, 100).Draw(t, "size")
		for range size {
			NewJoiner(m, taken).Join(true)
		}
		for range 50 {
			gone := rapid.IntRange(0, size-1).Draw(t, "gone")
			for slot := 0; ; slot++ {
				if taken.Has(slot) {
					if gone == 0 {
						taken.Release(slot)
						break
					}
					gone--
				}
			}
			NewJoiner(m, taken).Join(true)
			require.Equal(t, m.Spot(size), m.SpotSlots(taken), "of %d at %s", size, m)
		}
	})
}

func TestWithoutAGapTheNextSlotIsTheLowest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, gapless, lowest := drawMix(t), &Slots{}, &Slots{}
		a, b := NewJoiner(m, gapless), NewJoiner(m, lowest)
		for range rapid.IntRange(0, 300).Draw(t, "pods") {
			require.Equal(t, b.Join(false), a.Join(true))
		}
	})
}

// Neither what was given before nor an earlier answer changes one.
func TestAReplacementTakesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMix(t)
		var taken, without Slots
		for _, slot := range rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 1, 20, rapid.ID[int]).Draw(t, "slots") {
			taken.Take(slot)
		}
		j := NewJoiner(m, &taken)
		for range rapid.IntRange(0, 5).Draw(t, "joined") {
			j.Join(rapid.Bool().Draw(t, "before"))
		}
		for range 5 {
			gone, anyOrder := rapid.IntRange(NoSlot, 35).Filter(func(s int) bool { return s == NoSlot || taken.Has(s) }).Draw(t, "gone"),
				rapid.Bool().Draw(t, "any order")
			without.CopyFrom(&taken)
			without.Release(gone)
			require.Equal(t, NewJoiner(m, &without).Join(anyOrder), j.Replacement(gone, anyOrder))
		}
	})
}
