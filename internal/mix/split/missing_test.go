// SPDX-License-Identifier: Apache-2.0

package split_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// listed returns n replicas that have no pod yet with their slots: the reference for counting without a list.
func listed(m split.Mix, assignments []split.Assignment, n int) (missing []split.Assignment) {
	var taken split.Slots
	for _, s := range assignments {
		taken.Take(s.Slot)
	}
	for range n {
		slot := taken.Lowest()
		taken.Take(slot)
		missing = append(missing, split.Assignment{Wants: m.TypeOf(slot), Pod: split.Pod{Slot: slot, On: m.TypeOf(slot)}})
	}
	return missing
}

// wrongOf is WrongSide with all replicas in one list.
func wrongOf(m split.Mix, all []split.Assignment) (ids []string) {
	c := split.CountOf(all)
	spare := map[capacity.Type]int{
		capacity.Spot: c.Spot - m.Spot(c.Total()), capacity.OnDemand: c.OnDemand - m.OnDemand(c.Total()), capacity.Unknown: math.MaxInt,
	}
	slices.SortFunc(all, func(a, b split.Assignment) int {
		if a.Borrowed() != b.Borrowed() {
			return map[bool]int{true: -1, false: 1}[a.Borrowed()]
		}
		return cmp.Compare(b.Slot, a.Slot)
	})
	for _, s := range all {
		if spare[s.On] <= 0 {
			continue
		}
		if spare[s.On]--; s.ID != "" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func anyMix(t *rapid.T) split.Mix {
	m := split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 12).Draw(t, "floor"))
	if rapid.Bool().Draw(t, "bounded") {
		m.MaxSpot = rapid.Int32Range(0, 12).Draw(t, "max")
	}
	return m
}

func TestMissingReplicasCountAsIfTheyWereListed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMix(t)
		assignments := split.Assign(anyMix(t), podsOf(t, 20))
		for i := range assignments {
			assignments[i].Wants = m.TypeOf(assignments[i].Slot)
		}
		n := rapid.IntRange(-3, 200).Draw(t, "missing")
		missing := listed(m, assignments, n)
		slots := make([]int, len(assignments))
		for i, s := range assignments {
			slots[i] = s.Slot
		}
		require.Equal(t, split.CountOf(missing), m.Missing(n, slots))
		var got []string
		for _, s := range split.WrongSide(m, assignments, n) {
			got = append(got, s.ID)
		}
		require.Equal(t, wrongOf(m, slices.Concat(assignments, missing)), got)
	})
}

func TestTwoBillionMissingReplicasCostNoMemory(t *testing.T) {
	m := split.New(50, 2)
	assignments := split.Assign(m, []split.Pod{pod("a", 1, 0, capacity.Spot), pod("b", 2, 1, capacity.OnDemand)})
	allocated := testing.AllocsPerRun(10, func() {
		split.WrongSide(m, assignments, math.MaxInt32)
		m.Missing(math.MaxInt32, []int{0, 1, 2, 7})
	})
	assert.Less(t, allocated, 50.0)
	c := m.Missing(math.MaxInt32, []int{0, 1})
	assert.Equal(t, math.MaxInt32, c.Total())
	assert.Equal(t, m.Spot(math.MaxInt32+2)-m.Spot(2), c.Spot)
}
