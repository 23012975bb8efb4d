// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A user who takes all they can leaves turns for the others.
func TestAUserTakesOnlyAShareOfTheTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each := rapid.IntRange(1, 3).Draw(t, "each")
		all := each + rapid.IntRange(1, 3).Draw(t, "more")
		turns := newTurns(all, each)
		held := map[string][]func(){}
		total := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			user := rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "user")
			if n := len(held[user]); n > 0 && rapid.Bool().Draw(t, "end") {
				held[user][n-1]()
				held[user] = held[user][:n-1]
				total--
				continue
			}
			done, ok := turns.try(user)
			require.Equal(t, len(held[user]) < each && total < all, ok)
			if ok {
				held[user] = append(held[user], done)
				total++
			}
		}
		for _, of := range held {
			for _, done := range of {
				done()
			}
		}
		require.Empty(t, turns.of, "users without turns are not kept")
		require.Empty(t, turns.all)
	})
}

func TestAUserWaitsForTheirOwnTurn(t *testing.T) {
	turns := newTurns(2, 1)
	done, err := turns.take(t.Context(), "alice", "commands")
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = turns.take(over, "alice", "commands")
	require.ErrorContains(t, err, "commands take too long")
	other, err := turns.take(t.Context(), "bob", "commands")
	require.NoError(t, err)
	other()
	done()
	require.Empty(t, turns.of)
}
