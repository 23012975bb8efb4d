// SPDX-License-Identifier: Apache-2.0

package spottrace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTheRateInterruptsItsPercentageInAMonth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.Float64Range(0, 99.9).Draw(t, "percent")
		h := Rate(percent)
		require.InDelta(t, percent/100, h.Probability(Month), 1e-9)
		longer := rapid.Int64Range(0, int64(Month)).Draw(t, "time")
		require.LessOrEqual(t, h.Probability(time.Duration(longer)), h.Probability(Month)+1e-12)
	})
}

func TestDrawnTimesHaveTheRate(t *testing.T) {
	const nodes = 20_000
	random, interrupted := Random(1, "pool"), 0
	for range nodes {
		if Rate(20).Until(random) < Month {
			interrupted++
		}
	}
	assert.InDelta(t, 0.2, float64(interrupted)/nodes, 0.01)
}

func TestDrawsDependOnSeedAndNameOnly(t *testing.T) {
	h := Rate(10)
	assert.Equal(t, h.Until(Random(7, "a")), h.Until(Random(7, "a")))
	assert.NotEqual(t, h.Until(Random(7, "a")), h.Until(Random(7, "b")))
	assert.NotEqual(t, h.Until(Random(7, "a")), h.Until(Random(8, "a")))
	// The draws that follow are the same, whatever the rate of those before.
	x, y := Random(7, "a"), Random(7, "a")
	Rate(0).Until(x)
	h.Until(y)
	assert.Equal(t, h.Until(x), h.Until(y))
}

func TestANodeWithoutARateIsNeverInterrupted(t *testing.T) {
	assert.Equal(t, Never, Rate(0).Until(Random(1, "")))
	assert.Equal(t, Never, Rate(1e-15).Until(Random(1, "")), "the time saturates")
	assert.Positive(t, Rate(99.99).Until(Random(1, "")))
}
