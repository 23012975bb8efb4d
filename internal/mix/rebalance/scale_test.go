// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// Fewer pods than before a move are accepted only from a scale that requested as many as there were.
func TestFollowScale(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		had := rapid.IntRange(1, 100).Draw(rt, "had")
		back, follows, agreed := had, false, false
		for _, n := range rapid.SliceOfN(rapid.OneOf(rapid.Just(had), rapid.IntRange(0, 200), rapid.Just(math.MaxInt32)), 1, 8).Draw(rt, "scale") {
			if back, follows = FollowScale(back, follows, n); !agreed {
				assert.Equal(rt, had, back)
			} else {
				assert.Equal(rt, min(n, maxReplicas), back)
			}
			agreed = agreed || n == had
			assert.Equal(rt, agreed, follows)
		}
	})
}
