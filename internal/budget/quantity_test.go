// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestSumsAndProductsSaturate(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, 2, math.MaxInt64 - 1, math.MaxInt64}
	number := rapid.OneOf(rapid.SampledFrom(edges), rapid.Int64())
	closest := func(x *big.Int) int64 {
		switch {
		case x.IsInt64():
			return x.Int64()
		case x.Sign() < 0:
			return math.MinInt64
		}
		return math.MaxInt64
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := number.Draw(rt, "a"), number.Draw(rt, "b")
		x, y := big.NewInt(a), big.NewInt(b)
		assert.Equal(rt, closest(new(big.Int).Add(x, y)), Add(a, b), "%d + %d", a, b)
		assert.Equal(rt, closest(new(big.Int).Sub(x, y)), Sub(a, b), "%d - %d", a, b)
		assert.Equal(rt, closest(new(big.Int).Mul(x, y)), Mul(a, b), "%d * %d", a, b)
	})
}
