// SPDX-License-Identifier: Apache-2.0

package mix_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/mix"
)

// listed makes a seat for each of n replicas that have no pod yet: the reference for what is counted without a list.
func listed(m mix.Mix, seats []mix.Seat, n int) (missing []mix.Seat) {
	var taken mix.Slots
	for _, s := range seats {
		taken.Take(s.Slot)
	}
	for range n {
		slot := taken.Lowest()
		taken.Take(slot)
		missing = append(missing, mix.Seat{Wants: m.TypeOf(slot), Pod: mix.Pod{Slot: slot, On: m.TypeOf(slot)}})
	}
	return missing
}

// wrongOf is mix.WrongSide with all seats in one list.
func wrongOf(m mix.Mix, all []mix.Seat) (ids []string) {
	c := mix.CountOf(all)
	spare := map[capacity.Type]int{
		capacity.Spot: c.Spot - m.Spot(c.Total()), capacity.OnDemand: c.OnDemand - m.OnDemand(c.Total()), capacity.Unknown: math.MaxInt,
	}
	slices.SortFunc(all, func(a, b mix.Seat) int {
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

func anyMix(t *rapid.T) mix.Mix {
	m := mix.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 12).Draw(t, "floor"))
	if rapid.Bool().Draw(t, "bounded") {
		m.MaxSpot = rapid.Int32Range(0, 12).Draw(t, "max")
	}
	return m
}

func TestMissingReplicasCountAsIfTheyWereListed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyMix(t)
		seats := mix.Assign(anyMix(t), podsOf(t, 20))
		for i := range seats {
			seats[i].Wants = m.TypeOf(seats[i].Slot)
		}
		n := rapid.IntRange(-3, 200).Draw(t, "missing")
		missing := listed(m, seats, n)
		slots := make([]int, len(seats))
		for i, s := range seats {
			slots[i] = s.Slot
		}
		require.Equal(t, mix.CountOf(missing), m.Missing(n, slots))
		var got []string
		for _, s := range mix.WrongSide(m, seats, n) {
			got = append(got, s.ID)
		}
		require.Equal(t, wrongOf(m, slices.Concat(seats, missing)), got)
	})
}

func TestTwoBillionMissingReplicasCostNoMemory(t *testing.T) {
	m := mix.New(50, 2)
	seats := mix.Assign(m, []mix.Pod{pod("a", 1, 0, capacity.Spot), pod("b", 2, 1, capacity.OnDemand)})
	allocated := testing.AllocsPerRun(10, func() {
		mix.WrongSide(m, seats, math.MaxInt32)
		m.Missing(math.MaxInt32, []int{0, 1, 2, 7})
	})
	assert.Less(t, allocated, 50.0)
	c := m.Missing(math.MaxInt32, []int{0, 1})
	assert.Equal(t, math.MaxInt32, c.Total())
	assert.Equal(t, m.Spot(math.MaxInt32+2)-m.Spot(2), c.Spot)
}
