// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The table of docs/deployment-records.md.
func TestSplitFor(t *testing.T) {
	for target, want := range map[float64]Split{
		0: {100, 1}, 0.9: {100, 1}, 0.99: {100, 1}, 0.995: {100, 2}, 0.999: {24, 2}, 0.9995: {12, 2}, 0.9999: {2, 2}, 0.99999: {0, 3}, 1: {0, 50},
	} {
		assert.Equal(t, want, SplitFor(target, DefaultReliability), target)
	}
	assert.Equal(t, Split{100, 2}, SplitFor(0.999, Reliability{OnDemand: 0.99, InterruptionsPerHour: 0, RecoveryMinutes: 5}), "nodes are never reclaimed")
}

func TestReplicasFor(t *testing.T) {
	for target, want := range map[float64]int32{0: 1, 0.9: 1, 0.99: 1, 0.991: 3, 0.999: 3, 0.9997: 3, 0.9999: 5, 0.99999: 5, 0.999999: 7, 1: 50} {
		assert.Equal(t, want, ReplicasFor(target, false, DefaultReliability), target)
	}
	assert.Equal(t, int32(3), ReplicasFor(0, true, DefaultReliability), "strong: a majority when one is gone")
}

func TestMoreAvailabilityNeverMeansLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Reliability{OnDemand: rapid.Float64Range(0.5, 0.9999).Draw(t, "up"), InterruptionsPerHour: rapid.Float64Range(0, 5).Draw(t, "rate"), RecoveryMinutes: rapid.Float64Range(1, 60).Draw(t, "recovery")}
		a, b := rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")
		a, b = min(a, b), max(a, b)
		x, y := SplitFor(a, r), SplitFor(b, r)
		require.GreaterOrEqual(t, x.SpotPercent, y.SpotPercent)
		require.LessOrEqual(t, x.MinOnDemand, y.MinOnDemand)
		require.True(t, y.SpotPercent >= 0 && x.SpotPercent <= 100 && x.MinOnDemand >= 1)
		require.LessOrEqual(t, ReplicasFor(a, false, r), ReplicasFor(b, false, r))
	})
}
