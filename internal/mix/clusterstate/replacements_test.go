// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// One answer leaves nothing behind for the next one.
func TestAReplacementHasTheSlotOfAPodThatJoinsWithoutTheReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &Group{
			Governing: &governing.Mix{Mix: split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 5).Draw(t, "floor"))},
			AnyOrder:  rapid.Bool().Draw(t, "any order"), Identity: rapid.IntRange(0, 9).Draw(t, "identity") == 0,
			Taken: rapid.SliceOfN(rapid.IntRange(0, 30), 0, 3).Draw(t, "taken"),
		}
		for _, slot := range rapid.SliceOfN(rapid.IntRange(0, 30), 1, 20).Draw(t, "slots") {
			g.Assignments = append(g.Assignments, Assignment{Assignment: split.Assignment{Pod: split.Pod{Slot: slot}}})
		}
		r := g.Replacements()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(g.Assignments)-1), 1, 20).Draw(t, "victims") {
			victim := &g.Assignments[i]
			want := g.Joiner(func(a *Assignment) bool { return a == victim }).Join(g.AnyOrder)
			if g.Identity {
				want = victim.Slot
			}
			require.Equal(t, want, r.Slot(victim))
		}
	})
}
