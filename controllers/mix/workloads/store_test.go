// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

func TestTheStoreHasWhatWasPutThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := workloads.NewStore()
		model := map[governing.GroupKey]rebalance.Entry{}
		namespaces, mixes := []string{"a", "b"}, []string{"", "m", "n"}
		text := func(label string, of []string) string { return rapid.SampledFrom(of).Draw(t, label) }
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				var e rebalance.Entry
				e.Group.Key = governing.GroupKey{Namespace: text("namespace", namespaces), ID: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "id"))}
				e.Mix, e.Moves = text("mix", mixes), make([]rebalance.Move, rapid.IntRange(0, 3).Draw(t, "moves"))
				e.Placeholders = make([]rebalance.Placeholder, rapid.IntRange(0, 2).Draw(t, "placeholders"))
				e.Verdict.Reason = rapid.SampledFrom([]*rebalance.Reason{rebalance.ReasonOnTarget, rebalance.ReasonNotReady, rebalance.ReasonClusterBudget}).Draw(t, "reason")
				for i := range e.Moves {
					e.Moves[i].Slow = rapid.Bool().Draw(t, "slow")
				}
				for _, m := range mixes[1:] {
					if rapid.Bool().Draw(t, "selects") {
						e.Selecting = append(e.Selecting, m)
					}
				}
				b.Put(e)
				model[e.Group.Key] = e
			},
			"drop": func(t *rapid.T) {
				key := governing.GroupKey{Namespace: text("namespace", namespaces), ID: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "id"))}
				b.Delete(key)
				delete(model, key)
			},
			"": func(t *rapid.T) {
				cluster, fresh := 0, 0
				var all []rebalance.Entry
				for key, e := range model {
					got, ok := b.Get(key)
					require.True(t, ok)
					require.Equal(t, e, got)
					cluster += len(e.Moves) + len(e.Placeholders)
					all = append(all, e)
					fresh += len(e.Placeholders)
					for _, m := range e.Moves {
						if !m.Slow {
							fresh++
						}
					}
				}
				require.ElementsMatch(t, all, b.All())
				waits := 0
				var there []string
				for _, ns := range namespaces {
					of := func(which func(rebalance.Entry) bool) (list []rebalance.Entry) {
						for key, e := range model {
							if key.Namespace == ns && which(e) {
								list = append(list, e)
							}
						}
						return list
					}
					for _, m := range mixes {
						mine := of(func(e rebalance.Entry) bool { return e.Mix == m })
						require.ElementsMatch(t, mine, b.OfMix(ns, m))
						ofMix := 0
						for _, e := range mine {
							if m != "" {
								ofMix += e.InFlight()
							}
						}
						require.Equal(t, ofMix, b.Budgets(entryOf(ns, m)).Mix)
						for i := range mine { // it counts once
							alone := mine[i].InFlight()
							if m != "" {
								alone = ofMix
							}
							require.Equal(t, alone, b.Budgets(&mine[i]).Mix)
							held := len(mine[i].Placeholders)
							if m != "" {
								held = placeholdersOf(mine)
							}
							require.Equal(t, held, b.Budgets(&mine[i]).MixHolding)
						}
						others := map[string]bool{}
						for _, e := range of(func(e rebalance.Entry) bool { return e.Mix != "" && e.Mix != m && slices.Contains(e.Selecting, m) }) {
							others[e.Mix] = true
						}
						require.Equal(t, slices.Sorted(maps.Keys(others)), b.Others(ns, m))
					}
					counts := of(func(e rebalance.Entry) bool { return e.Verdict.Reason == rebalance.ReasonClusterBudget })
					total, here, wait := b.Contention(ns)
					require.Equal(t, []int{cluster, len(counts)}, []int{total, here})
					waits += here
					require.GreaterOrEqual(t, wait, waits)
					slow := 0
					for _, e := range of(func(rebalance.Entry) bool { return true }) {
						for _, m := range e.Moves {
							if m.Slow {
								slow++
							}
						}
					}
					all := of(func(rebalance.Entry) bool { return true })
					require.Equal(t, fresh+slow, b.Budgets(entryOf(ns, "")).InFlight)
					for i := range all {
						require.Equal(t, fresh+slow, b.Budgets(&all[i]).InFlight, "it counts once")
						require.Equal(t, placeholdersOf(b.All()), b.Budgets(&all[i]).Holding)
					}
					require.ElementsMatch(t, all, b.Namespace(ns))
					require.Equal(t, len(all), b.Len(ns))
					require.ElementsMatch(t, of(func(e rebalance.Entry) bool { return !e.Settled() }), b.Unsettled(ns))
					require.ElementsMatch(t, of(func(e rebalance.Entry) bool { return len(e.Moves)+len(e.Placeholders) > 0 }), b.Moving(ns))
					if len(all) > 0 {
						there = append(there, ns)
					}
				}
				require.ElementsMatch(t, there, b.Namespaces())
			},
		})
	})
}

func placeholdersOf(list []rebalance.Entry) (n int) {
	for i := range list {
		n += len(list[i].Placeholders)
	}
	return n
}

// entryOf is a workload that is not in the store.
func entryOf(namespace, mix string) *rebalance.Entry {
	e := &rebalance.Entry{Mix: mix}
	e.Group.Key = governing.GroupKey{Namespace: namespace, ID: "none"}
	return e
}

func TestTheStoreKeepsItsFlags(t *testing.T) {
	b := workloads.NewStore()
	assert.False(t, b.Storm())
	assert.False(t, b.Complete())
	b.SetStorm(true)
	b.SetComplete()
	assert.True(t, b.Storm())
	assert.True(t, b.Complete())
	b.SetStorm(false)
	assert.False(t, b.Storm())
}

// What is not settled may change by itself.
func TestASettledEntryChangesOnlyWithItsInputs(t *testing.T) {
	g := &clusterstate.Group{Key: governing.GroupKey{Namespace: "shop", ID: "web"}, Version: 3}
	spec := rebalance.Version{UID: "mix", Generation: 1}
	tests := map[string]struct {
		change func(*rebalance.Entry)
		want   bool
	}{
		"it satisfies its mix":               {func(*rebalance.Entry) {}, true},
		"a replica has to move":              {func(e *rebalance.Entry) { e.Verdict.Reason = rebalance.ReasonInsufficientCapacity }, false},
		"nothing was decided":                {func(e *rebalance.Entry) { e.Verdict.Reason = nil }, false},
		"a replica is being moved":           {func(e *rebalance.Entry) { e.Moves = make([]rebalance.Move, 1) }, false},
		"a placeholder requests room":        {func(e *rebalance.Entry) { e.Placeholders = make([]rebalance.Placeholder, 1) }, false},
		"a replica is held back for a while": {func(e *rebalance.Entry) { e.Held = map[string]rebalance.Hold{"uid": {}} }, false},
		"the group is another":               {func(e *rebalance.Entry) { e.Group.Version = 2 }, false},
		"the mix is another":                 {func(e *rebalance.Entry) { e.Spec.UID = "new" }, false},
		"the mix was changed":                {func(e *rebalance.Entry) { e.Spec.Generation = 0 }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := workloads.NewStore()
			settled, known := b.Settled(g, spec)
			assert.False(t, settled || known)
			e := rebalance.Entry{Group: *g, Spec: spec, Verdict: rebalance.Verdict{Reason: rebalance.ReasonOnTarget}}
			tc.change(&e)
			b.Put(e)
			settled, known = b.Settled(g, spec)
			assert.True(t, known)
			assert.Equal(t, tc.want, settled)
		})
	}
}
