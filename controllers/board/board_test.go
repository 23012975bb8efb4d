// SPDX-License-Identifier: Apache-2.0

package board_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/controllers/board"
	"berth.dev/berth/internal/policy"
)

func TestTheBoardIsWhatWasPutThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := board.New()
		model := map[policy.GroupKey]board.Entry{}
		namespaces, mixes := []string{"a", "b"}, []string{"", "m", "n"}
		text := func(label string, of []string) string { return rapid.SampledFrom(of).Draw(t, label) }
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				var e board.Entry
				e.Group.Key = policy.GroupKey{Namespace: text("namespace", namespaces), ID: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "id"))}
				e.Mix, e.Moves = text("mix", mixes), make([]board.Move, rapid.IntRange(0, 3).Draw(t, "moves"))
				e.Placeholders = make([]board.Placeholder, rapid.IntRange(0, 2).Draw(t, "placeholders"))
				b.Put(e)
				model[e.Group.Key] = e
			},
			"retain": func(t *rapid.T) {
				namespace, keep := text("namespace", namespaces), map[policy.GroupKey]bool{}
				for i := range 5 {
					key := policy.GroupKey{Namespace: namespace, ID: fmt.Sprint(i)}
					if keep[key] = rapid.Bool().Draw(t, "keep"); !keep[key] {
						delete(model, key)
					}
				}
				b.Retain(namespace, keep)
			},
			"": func(t *rapid.T) {
				cluster := 0
				var all []board.Entry
				for key, e := range model {
					got, ok := b.Get(key)
					require.True(t, ok)
					require.Equal(t, e, got)
					cluster += len(e.Moves) + len(e.Placeholders)
					all = append(all, e)
				}
				require.ElementsMatch(t, all, b.All())
				for _, ns := range namespaces {
					for _, m := range mixes {
						ofMix := 0
						for key, e := range model {
							if m != "" && key.Namespace == ns && e.Mix == m {
								ofMix += len(e.Moves) + len(e.Placeholders)
							}
						}
						total, mine := b.InFlight(ns, m)
						require.Equal(t, []int{cluster, ofMix}, []int{total, mine})
					}
					var there []board.Entry
					for key, e := range model {
						if key.Namespace == ns {
							there = append(there, e)
						}
					}
					require.ElementsMatch(t, there, b.Namespace(ns))
				}
			},
		})
	})
}

func TestFlagsStand(t *testing.T) {
	b := board.New()
	assert.False(t, b.Storm())
	assert.False(t, b.Complete())
	b.SetStorm(true)
	b.SetComplete()
	assert.True(t, b.Storm())
	assert.True(t, b.Complete())
	b.SetStorm(false)
	assert.False(t, b.Storm())
}
