// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// A workload whose pods leave in any order, and are never moved, grows and is replaced by the type that is missing: also past
// restarts of the scheduler, past changes of the mix, and beside pods that have no slot of their own.
func TestPodsRemovedInAnyOrderAreReplacedByTheMissingType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &governing.Mix{Mix: split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 4).Draw(t, "floor"))}
		l, created := newLedger(t), 0
		slots := map[string]int{}
		size := rapid.IntRange(1, 40).Draw(t, "size")
		join := func() {
			var taken split.Slots
			for _, slot := range slots {
				require.True(t, taken.Take(slot))
			}
			name := "pod-" + strconv.Itoa(created)
			created++
			c := claimOf(name)
			c.Governing, c.AnyOrder = p, true
			next := l.Next(c).Slot
			hold, err := l.Claim(c)
			require.NoError(t, err)
			require.Equal(t, split.NewJoiner(p.Mix, &taken).Join(true), hold.Slot)
			require.Equal(t, hold.Slot, next)
			again, err := l.Claim(c)
			require.NoError(t, err)
			require.Equal(t, hold.Slot, again.Slot, "a pod that waits keeps its slot")
			require.NoError(t, l.Reserve(types.UID(name), hold.Slot, "node"))
			l.Observe(ledger.Bound{UID: types.UID(name), Member: in(webKey), Node: "node", Claimed: hold.Slot})
			slots[name] = hold.Slot
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"join", "join", "leave", "restart", "change"}).Draw(t, "step") {
			case "join":
				if len(slots) < size {
					join()
				}
			case "leave":
				for _, name := range slices.Sorted(maps.Keys(slots)) {
					if rapid.Bool().Draw(t, "leaves") {
						l.Forget(types.UID(name))
						delete(slots, name)
					}
				}
			case "restart":
				l = newLedger(t)
				for name, slot := range slots {
					l.Observe(ledger.Bound{UID: types.UID(name), Member: in(webKey), Node: "node", Claimed: slot})
				}
			case "change":
				p = &governing.Mix{Mix: split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), p.Mix.MinOnDemand)}
			}
		}
	})
}

// The type that is missing decides, and not whether the slot that comes free is a lower one.
func TestAFreedSlotWakesThePodThatWouldTakeIt(t *testing.T) {
	half := &governing.Mix{Mix: split.New(50, 0)} // slots 1 and 3 are spot
	for name, test := range map[string]struct {
		gone string
		want []string
	}{
		"one of the other type, above": {"p2", []string{"p1"}},
		"one of its own type":          {"p3", []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledgerWithNodes(t)
			in := func(name string) ledger.Claim {
				c := claimOf(name)
				c.Governing, c.AnyOrder = half, true
				return c
			}
			for i, node := range []string{"on-demand", "", "on-demand", "spot"} {
				name := fmt.Sprint("p", i)
				require.Equal(t, i, held(t, l, in(name)).Slot)
				if node != "" {
					require.NoError(t, l.Reserve(types.UID(name), i, node))
				}
			}
			require.ElementsMatch(t, test.want, names(l.Forget(types.UID(test.gone))))
			if len(test.want) > 0 {
				require.Equal(t, 2, held(t, l, in("p1")).Slot)
			}
		})
	}
}

func TestTwoSlotsThatComeFreeWakeTwoPodsInAnyOrder(t *testing.T) {
	l := ledgerWithNodes(t)
	in := func(name string) ledger.Claim {
		c := claimOf(name)
		c.Governing, c.AnyOrder = &governing.Mix{Mix: split.New(0, 0)}, true
		return c
	}
	for i := range 6 {
		slot := held(t, l, in(fmt.Sprint("p", i))).Slot
		if i < 3 {
			require.NoError(t, l.Reserve(types.UID(fmt.Sprint("p", i)), slot, "on-demand"))
		}
	}
	require.Equal(t, []string{"p5"}, names(l.Forget("p0")))
	require.Equal(t, []string{"p4"}, names(l.Forget("p1")))
}
