// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/perf/bench"
)

func TestMixError(t *testing.T) {
	const s, o = capacity.Spot, capacity.OnDemand
	half := split.New(50, 0) // on-demand, spot, on-demand, …
	tests := map[string]struct {
		order []capacity.Type
		most  int
		mean  float64
	}{
		"nothing is bound":                      {},
		"the sequence of the mix":               {order: []capacity.Type{o, s, o, s}},
		"one that comes too early":              {order: []capacity.Type{s, o, o, s}, most: 1, mean: 0.25},
		"all spot first: exact in the end only": {order: []capacity.Type{s, s, o, o}, most: 1, mean: 0.75},
		"too few spot":                          {order: []capacity.Type{o, o, o, o}, most: 2, mean: 1},
		"a node of unknown type is not spot":    {order: []capacity.Type{o, capacity.Unknown}, most: 1, mean: 0.5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			most, mean := bench.MixError(half, tc.order)
			assert.Equal(t, tc.most, most)
			assert.InDelta(t, tc.mean, mean, 1e-9)
		})
	}
}

func mixes(t *rapid.T) split.Mix {
	m := split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 5).Draw(t, "floor"))
	if rapid.Bool().Draw(t, "bounded") {
		m.MaxSpot = rapid.Int32Range(0, 20).Draw(t, "most spot")
	}
	return m
}

func TestTheSequenceOfAMixHasNoError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixes(t)
		order := make([]capacity.Type, rapid.IntRange(0, 200).Draw(t, "pods"))
		for i := range order {
			order[i] = m.TypeOf(i)
		}
		most, mean := bench.MixError(m, order)
		assert.Zero(t, most)
		assert.Zero(t, mean)
	})
}

// Every prefix on its own, counted again: the largest and the mean are of these.
func TestMixErrorIsThatOfEachPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixes(t)
		order := rapid.SliceOfN(rapid.SampledFrom([]capacity.Type{capacity.Unknown, capacity.Spot, capacity.OnDemand}), 1, 60).Draw(t, "order")
		most, sum := 0, 0
		for n := 1; n <= len(order); n++ {
			var c split.Count
			for _, on := range order[:n] {
				c.Add(on)
			}
			off := c.Spot - m.Spot(n)
			if off < 0 {
				off = -off
			}
			sum += off
			if off > most {
				most = off
			}
			// No mix requests two spot pods at once, so an error grows by one pod at a time.
			got, _ := bench.MixError(m, order[:n])
			assert.Equal(t, most, got)
			assert.LessOrEqual(t, got, n)
		}
		_, mean := bench.MixError(m, order)
		assert.InDelta(t, float64(sum)/float64(len(order)), mean, 1e-9)
		assert.LessOrEqual(t, mean, float64(most))
	})
}

func TestDeviation(t *testing.T) {
	require.Zero(t, bench.Deviation(nil))
	require.Zero(t, bench.Deviation([]float64{3, 3, 3}))
	require.InDelta(t, 2, bench.Deviation([]float64{2, 4, 4, 4, 5, 5, 7, 9}), 1e-9)
}
