// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/rebalance"
)

func TestBackoff(t *testing.T) {
	tests := map[string]struct {
		base, limit time.Duration
		failures    int32
		want        time.Duration
	}{
		"no failure, no wait":                {time.Minute, time.Hour, 0, 0},
		"a negative count is no failure":     {time.Minute, time.Hour, -1, 0},
		"the first waits base":               {time.Minute, time.Hour, 1, time.Minute},
		"the second waits twice as long":     {time.Minute, time.Hour, 2, 2 * time.Minute},
		"the sixth is still below the limit": {time.Minute, time.Hour, 6, 32 * time.Minute},
		"the seventh is not":                 {time.Minute, time.Hour, 7, time.Hour},
		"the limit can be met exactly":       {time.Minute, 4 * time.Minute, 3, 4 * time.Minute},
		"failures indefinitely":              {time.Minute, time.Hour, math.MaxInt32, time.Hour},
		"64 failures do not overflow":        {time.Minute, math.MaxInt64, 64, math.MaxInt64},
		"nor does the last bit":              {1, math.MaxInt64, 63, 1 << 62},
		"nor the one after it":               {1, math.MaxInt64, 64, math.MaxInt64},
		"a base beyond the limit":            {time.Hour, time.Minute, 1, time.Minute},
		"no base":                            {0, time.Minute, 5, 0},
		"no limit":                           {time.Minute, 0, 5, 0},
		"a negative limit":                   {time.Minute, -1, 5, 0},
		"a negative base":                    {-time.Minute, time.Minute, 5, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, rebalance.Backoff(tc.base, tc.limit, tc.failures))
		})
	}
}

func TestBackoffIsThePowerCutOffAtTheLimit(t *testing.T) {
	durations := rapid.OneOf(rapid.Int64Range(1, 1e12), rapid.Int64Range(1, math.MaxInt64))
	rapid.Check(t, func(t *rapid.T) {
		base, limit := durations.Draw(t, "base"), durations.Draw(t, "limit")
		failures := rapid.Int32Range(1, 200).Draw(t, "failures")
		want := new(big.Int).Lsh(big.NewInt(base), uint(failures-1))
		if want.Cmp(big.NewInt(limit)) > 0 {
			want = big.NewInt(limit)
		}
		assert.Equal(t, want.Int64(), int64(rebalance.Backoff(time.Duration(base), time.Duration(limit), failures)))
	})
}
