// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestShare(t *testing.T) {
	share := func(mine Standing, others ...Standing) [2]int {
		inFlight, reserved := Share(mine, others)
		return [2]int{inFlight, reserved}
	}
	assert.Equal(t, [2]int{0, 0}, share(Standing{}))
	assert.Equal(t, [2]int{6, 0}, share(Standing{Fresh: 1, Slow: 2}, Standing{Fresh: 3, Slow: 9}), "slow ones count for their own namespace")
	b := Standing{Namespace: "b", Fresh: 1, Began: 5}
	assert.Equal(t, [2]int{1, 1}, share(b, Standing{Namespace: "c", Waits: true, Began: 9}), "it has fewer")
	assert.Equal(t, [2]int{2, 1}, share(b, Standing{Namespace: "c", Fresh: 1, Waits: true, Began: 4}), "it waits longer")
	assert.Equal(t, [2]int{2, 0}, share(b, Standing{Namespace: "a", Fresh: 1, Waits: true, Began: 6}))
	assert.Equal(t, [2]int{1, 0}, share(b, Standing{Namespace: "a", Slow: 3, Waits: true, Began: 4}), "it has more, slow ones included")
	assert.Equal(t, [2]int{1, 0}, share(b, Standing{Namespace: "c"}), "it does not wait")
}

// Every namespace has more to move than the budget allows. In some of them no replacement ever becomes Ready, and a move
// that timed out is followed by the next one. Of the others each is served before long, and never more moves than the limit
// are fresh.
func TestNoNamespaceStarvesAnother(t *testing.T) {
	const slow, timeout = 3, 12 // rounds
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		broken := rapid.SliceOfN(rapid.Bool(), 2, 6).Draw(t, "broken")
		broken[rapid.IntRange(0, len(broken)-1).Draw(t, "sound")] = false
		ages, all, last := make([][]int, len(broken)), make([]Standing, len(broken)), make([]int, len(broken))
		for i := range all {
			all[i].Namespace = fmt.Sprint(i)
		}
		served := uint64(0)
		for round := range 400 {
			for i := range all {
				var left []int
				all[i].Fresh, all[i].Slow = 0, 0
				for _, age := range ages[i] {
					if age++; !broken[i] && age >= 1 || age >= timeout {
						continue
					}
					left = append(left, age)
					if age >= slow {
						all[i].Slow++
					} else {
						all[i].Fresh++
					}
				}
				ages[i] = left
			}
			for changed := true; changed; {
				changed = false
				for i := range all {
					inFlight, reserved := Share(all[i], append(append([]Standing{}, all[:i]...), all[i+1:]...))
					may := inFlight+reserved < limit
					if may {
						served++
						ages[i], last[i] = append(ages[i], 0), round
						all[i].Fresh, all[i].Began = all[i].Fresh+1, served
					}
					changed = changed || may || all[i].Waits == may
					all[i].Waits = !may
				}
			}
			fresh := 0
			for i := range all {
				fresh += all[i].Fresh
				if !broken[i] {
					require.LessOrEqual(t, round-last[i], 2*len(all)*slow, "namespace %d", i)
				}
			}
			require.LessOrEqual(t, fresh, limit)
		}
	})
}
