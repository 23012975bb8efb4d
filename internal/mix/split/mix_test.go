// SPDX-License-Identifier: Apache-2.0

package split_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// expected has the published values. The integration tests also schedule every row.
var expected = []struct {
	replicas             int
	percent, minOnDemand int32
	wantSpot             int
}{
	{10, 70, 1, 7},
	{10, 73, 1, 7},
	{10, 90, 4, 6},
	{10, 80, 3, 7},
	{5, 80, 4, 1},
	{3, 80, 2, 1},
	{7, 50, 1, 3},
	{5, 0, 1, 0},
	{10, 0, 0, 0},
	{10, 100, 0, 10},
	{8, 75, 0, 6},
	{8, 60, 1, 4},
	// A minOnDemand above the size of the group results in 0 spot replicas, never a negative number.
	{1, 50, 3, 0},
	{0, 70, 2, 0},
	{2, 100, 2, 0},
	{20, 70, 2, 14},
}

func TestSpotIsTheExpectedValue(t *testing.T) {
	for _, row := range expected {
		t.Run(fmt.Sprintf("%d replicas at %d%% with a floor of %d", row.replicas, row.percent, row.minOnDemand), func(t *testing.T) {
			m := split.New(row.percent, row.minOnDemand)
			assert.Equal(t, row.wantSpot, m.Spot(row.replicas))
			assert.Equal(t, row.replicas-row.wantSpot, m.OnDemand(row.replicas))
		})
	}
}

func TestMaxSpotBoundsTheNumberOfSpotReplicas(t *testing.T) {
	m := split.Mix{SpotPercent: 100, MaxSpot: 3}
	assert.Equal(t, 2, m.Spot(2))
	assert.Equal(t, 3, m.Spot(3))
	assert.Equal(t, 3, m.Spot(1000))
}

func TestValidateNamesTheFieldAndTheValue(t *testing.T) {
	require.NoError(t, split.New(0, 0).Validate())
	require.NoError(t, split.New(100, split.MaxBound).Validate())
	for want, m := range map[string]split.Mix{
		"spotPercent: 101 is not between 0 and 100":         split.New(101, 0),
		"spotPercent: -1 is not between 0 and 100":          split.New(-1, 0),
		"minOnDemand: -2 is not between 0 and 1000000":      split.New(50, -2),
		"minOnDemand: 1000001 is not between 0 and 1000000": split.New(50, split.MaxBound+1),
		"maxSpot: -3 is not between 0 and 1000000":          {MaxSpot: -3},
		"maxSpot: 2147483646 is not between 0 and 1000000":  {MaxSpot: split.NoMax - 1},
	} {
		assert.EqualError(t, m.Validate(), want)
	}
}

func TestStringReadsAsPeopleWriteIt(t *testing.T) {
	assert.Equal(t, "70% spot, at least 2 on-demand", split.New(70, 2).String())
	assert.Equal(t, "100% spot, at least 0 on-demand, at most 3 spot", split.Mix{SpotPercent: 100, MaxSpot: 3}.String())
}

func mixes() *rapid.Generator[split.Mix] {
	return rapid.Custom(func(t *rapid.T) split.Mix {
		m := split.New(rapid.Int32Range(0, 100).Draw(t, "spotPercent"), rapid.Int32Range(0, 40).Draw(t, "minOnDemand"))
		if rapid.Bool().Draw(t, "bounded") {
			m.MaxSpot = rapid.Int32Range(0, 60).Draw(t, "maxSpot")
		}
		return m
	})
}

func TestSplitIsMonotoneAndSumsToTheGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n := mixes().Draw(t, "mix"), rapid.IntRange(0, 2000).Draw(t, "n")
		assert.Equal(t, n, m.Spot(n)+m.OnDemand(n), "the split sums to the group")
		assert.Contains(t, []int{0, 1}, m.Spot(n+1)-m.Spot(n), "one more replica adds at most one to spot")
		assert.Contains(t, []int{0, 1}, m.OnDemand(n+1)-m.OnDemand(n), "one more replica adds at most one to on-demand")
	})
}

func TestSplitKeepsEveryBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n := mixes().Draw(t, "mix"), rapid.IntRange(0, 2000).Draw(t, "n")
		spot := m.Spot(n)
		assert.LessOrEqual(t, spot*100, n*int(m.SpotPercent), "spot stays within its percentage")
		assert.GreaterOrEqual(t, n-spot, min(n, int(m.MinOnDemand)), "the floor holds, or all replicas are on on-demand")
		assert.LessOrEqual(t, spot, int(m.MaxSpot), "spot stays within its maximum")
		if spot < n {
			over := spot + 1
			assert.True(t, over*100 > n*int(m.SpotPercent) || n-over < int(m.MinOnDemand) || over > int(m.MaxSpot),
				"no larger number of spot replicas keeps every bound")
		}
	})
}

func TestEveryPrefixOfTheSlotsIsTheExactSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixes().Draw(t, "mix")
		n := rapid.IntRange(0, 500).Draw(t, "n")
		spot := 0
		for slot := range n {
			assert.Equal(t, m.Spot(slot), spot)
			if m.TypeOf(slot) == capacity.Spot {
				spot++
			}
		}
		assert.Equal(t, m.Spot(n), spot)
	})
}

func TestSlotOfFindsTheSlotsOfATypeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixes().Draw(t, "mix")
		want := map[capacity.Type][]int{}
		const n = 300
		for slot := range n {
			want[m.TypeOf(slot)] = append(want[m.TypeOf(slot)], slot)
		}
		for _, typ := range []capacity.Type{capacity.Spot, capacity.OnDemand} {
			for k, slot := range want[typ] {
				got, found := m.SlotOf(typ, k)
				require.True(t, found, "%s slot %d of %s", typ, k, m)
				require.Equal(t, slot, got, "%s slot %d of %s", typ, k, m)
			}
			if got, found := m.SlotOf(typ, len(want[typ])); found {
				assert.GreaterOrEqual(t, got, n, "the next %s slot of %s lies beyond those seen", typ, m)
			}
		}
	})
}

func BenchmarkTypeOf(b *testing.B) {
	m := split.New(70, 2)
	b.ReportAllocs()
	for i := range b.N {
		_ = m.TypeOf(i & 1023)
	}
}
