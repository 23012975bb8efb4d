// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/rebalance"
)

func TestALargerCanaryKeepsTheMixesOfASmallerOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		namespace, name := rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "namespace"), rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "name")
		was := false
		for percent := range 101 {
			is := (&rebalance.Canary{Percent: percent}).Includes(namespace, name)
			require.False(t, was && !is, "%d", percent)
			was = is
		}
		require.True(t, was, "100 percent are all")
		require.False(t, (&rebalance.Canary{}).Includes(namespace, name))
		require.True(t, (&rebalance.Canary{Namespaces: []string{"x", namespace}}).Includes(namespace, name))
	})
}

func TestACanaryHasAboutItsShare(t *testing.T) {
	for _, percent := range []int{5, 20, 50} {
		n := 0
		for i := range 10_000 {
			if (&rebalance.Canary{Percent: percent}).Includes(fmt.Sprintf("team-%d", i%100), fmt.Sprintf("app-%d", i/100)) {
				n++
			}
		}
		assert.InDelta(t, percent*100, n, 150)
	}
	first := rebalance.Canary{Percent: 89}
	assert.True(t, first.Includes("shop", "web"), "a release does not draw other mixes: its hash is 88")
	first.Percent--
	assert.False(t, first.Includes("shop", "web"))
}

// A status with the latest value would be written for each answer.
func TestAHealthKeepsWhatItWasWhenItChanged(t *testing.T) {
	h := rebalance.Health{}.Next(rebalance.HealthUnknown, "refused", noon)
	assert.Equal(t, h, h.Next(rebalance.HealthUnknown, "timeout", noon.Add(time.Minute)))
	bad := h.Next(rebalance.Unhealthy, "0.5", noon.Add(time.Minute))
	assert.Equal(t, rebalance.Health{State: rebalance.Unhealthy, Detail: "0.5", At: noon.Add(time.Minute)}, bad)
}

func TestAnUnknownHealthIsNotStatedAsBad(t *testing.T) {
	in := outOfMix()
	in.Cluster.Health = &rebalance.Health{State: rebalance.HealthUnknown, Detail: "no answer within 5s", At: noon}
	v := decide(in)
	assert.Equal(t, rebalance.ReasonHealthGate, v.Reason)
	assert.Equal(t, "the query of mix.rebalance.healthGate has no answer since 12:00:00Z, so it is unknown whether moves are safe: "+
		"no answer within 5s", v.Message)
	in.Cluster.Health.State = rebalance.Healthy
	assert.Equal(t, rebalance.ReasonMove, decide(in).Reason)
}
