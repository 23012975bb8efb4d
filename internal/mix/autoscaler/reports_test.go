// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReportsEndWhenNoAutoscalerLaunchesANode(t *testing.T) {
	var r Reports
	_, _, ok := r.End()
	assert.False(t, ok, "nothing is reported")
	began, now := time.Unix(1_800_000_000, 0), time.Unix(1_900_000_000, 0) // by two clocks
	assert.True(t, r.Add(Observation{Launches, Karpenter, began}, now))
	assert.True(t, r.Add(Observation{NoNode, ClusterAutoscaler, began.Add(-time.Hour)}, now), "the clock of another component")
	_, _, ok = r.End()
	assert.False(t, ok, "Karpenter launches one")
	assert.True(t, r.Add(Observation{NoNode, Karpenter, began.Add(time.Second)}, now.Add(time.Minute)))
	at, by, ok := r.End()
	require.True(t, ok)
	assert.Equal(t, Karpenter, by)
	assert.Equal(t, now.Add(time.Minute+settles), at)
	assert.False(t, r.Add(Observation{Launches, Karpenter, began}, now), "it was recorded before")
}

// Watches deliver events again when they are interrupted.
func TestALaunchThatFailedCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Reports
		began, now := time.Unix(1_800_000_000, 0), time.Unix(1_900_000_000, 0)
		failed := rapid.IntRange(1, 4).Draw(t, "launches that failed")
		var all []Observation
		for i := range failed {
			at := began.Add(time.Duration(2*i) * time.Second)
			all = append(all, Observation{Launches, Karpenter, at}, Observation{LaunchFailed, Karpenter, at})
			for range rapid.IntRange(1, 3).Draw(t, "deliveries") {
				for _, o := range rapid.Permutation(all).Draw(t, "order") {
					r.Add(o, now)
				}
			}
			r.Add(all[len(all)-1], now)
		}
		if got := r.last[Karpenter].failed; got != failed {
			t.Fatalf("%d launches failed, %d count", failed, got)
		}
	})
}
