// SPDX-License-Identifier: Apache-2.0

package split_test

import (
	"math"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

func TestSlotsIsASet(t *testing.T) {
	slots := map[string]*rapid.Generator[int]{
		"small numbers": rapid.IntRange(0, 200),
		"any number": rapid.OneOf(
			rapid.IntRange(0, 600), rapid.IntRange(0, split.MaxSlot), rapid.IntRange(split.MaxSlot-70, split.MaxSlot),
		),
	}
	for name, slot := range slots {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { slotsAreASet(t, slot) })
		})
	}
}

func slotsAreASet(t *rapid.T, slot *rapid.Generator[int]) {
	var s split.Slots
	model := map[int]bool{}
	t.Repeat(map[string]func(*rapid.T){
		"take": func(t *rapid.T) {
			k := slot.Draw(t, "slot")
			assert.Equal(t, !model[k], s.Take(k))
			model[k] = true
		},
		"take lowest": func(t *rapid.T) {
			k := s.Lowest()
			assert.True(t, s.Take(k))
			model[k] = true
		},
		"fill a word": func(*rapid.T) {
			for range 70 {
				k := s.Lowest()
				s.Take(k)
				model[k] = true
			}
		},
		"take a run": func(t *rapid.T) {
			from := slot.Draw(t, "slot")
			for k := from; k < min(from+70, split.MaxSlot+1); k++ {
				s.Take(k)
				model[k] = true
			}
		},
		"release": func(t *rapid.T) {
			k := slot.Draw(t, "slot")
			assert.Equal(t, model[k], s.Release(k))
			delete(model, k)
		},
		"": func(t *rapid.T) {
			lowest := 0
			for model[lowest] {
				lowest++
			}
			assert.Equal(t, lowest, s.Lowest())
			assert.Equal(t, len(model), s.Len())
			for k := range model {
				assert.True(t, s.Has(k), "slot %d", k)
			}
			var c split.Slots
			c.Take(split.MaxSlot - 1)
			c.CopyFrom(&s)
			assert.Equal(t, lowest, c.Lowest())
			assert.Equal(t, model[split.MaxSlot-1], c.Has(split.MaxSlot-1))
		},
	})
}

func TestSlotsRefusesNumbersThatAreNoSlots(t *testing.T) {
	var s split.Slots
	for _, slot := range []int{math.MinInt, -1, split.MaxSlot + 1, math.MaxInt32, math.MaxInt} {
		assert.False(t, s.Take(slot), "slot %d", slot)
		assert.False(t, s.Has(slot), "slot %d", slot)
		assert.False(t, s.Release(slot), "slot %d", slot)
	}
	assert.Zero(t, s.Len())
	assert.True(t, s.Take(split.MaxSlot))
}

// A tenant sets the slot of a pod: the memory of a set depends on its size, not on the numbers in it.
func TestSlotsWithHighNumbersStaySmall(t *testing.T) {
	sets := make([]split.Slots, 500)
	before := builders.Heap()
	for i := range sets {
		sets[i].Take(split.MaxSlot - i)
		sets[i].Take(0)
	}
	assert.Less(t, int64(builders.Heap()-before), int64(1<<20), "heap for 500 sets of 2 slots")
	runtime.KeepAlive(sets)
}

// BenchmarkSlots takes the lowest free slot of a full set, and releases it.
func BenchmarkSlots(b *testing.B) {
	for _, size := range []int{20, 1000, 10_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			var s, scratch split.Slots
			for i := range size {
				s.Take(i)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7) % size
				s.Release(i)
				scratch.CopyFrom(&s)
				s.Take(s.Lowest())
			}
		})
	}
}
