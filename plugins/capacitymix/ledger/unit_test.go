// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// nodeOf are the nodes of the tests by type.
var nodeOf = map[capacity.Type]string{capacity.Spot: "spot", capacity.OnDemand: "on-demand"}

func ledgerWithNodes(t require.TestingT) *ledger.Ledger {
	l := newLedger(t)
	for typ, name := range nodeOf {
		l.SetNode(node(name, typ.String(), "a"))
	}
	return l
}

func inUnit(unit string) governing.Member {
	return governing.Member{Group: webKey, Unit: unit, Slot: split.NoSlot, AnyOrder: true}
}

func claimIn(unit, name string) ledger.Claim {
	c := claimOf(name)
	c.Member = inUnit(unit)
	return c
}

func TestThePodsOfAUnitHoldOneSlot(t *testing.T) {
	l := ledgerWithNodes(t) // 70 %, floor 2: slots 0 and 1 are on-demand, 2 to 4 spot
	for i, unit := range []string{"a", "b", "c"} {
		for member := range 3 {
			hold := held(t, l, claimIn(unit, fmt.Sprint(unit, member)))
			assert.Equal(t, i, hold.Slot)
			assert.Equal(t, webMix.Mix.TypeOf(i), hold.Type)
			assert.False(t, hold.Fixed, "none of its pods runs yet")
		}
	}
	assert.Equal(t, 3, held(t, l, claimOf("alone")).Slot)
	for member := range 2 {
		l.Forget(types.UID(fmt.Sprint("b", member)))
	}
	assert.Equal(t, 4, held(t, l, claimIn("d", "d0")).Slot, "a unit keeps its slot to its last pod")
	l.Forget("b2")
	assert.Equal(t, 1, held(t, l, claimIn("e", "e0")).Slot)
}

func TestAUnitFollowsThePodThatRuns(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, l *ledger.Ledger){
		"reserved": func(t *testing.T, l *ledger.Ledger) { require.NoError(t, l.Reserve("c0", 2, "on-demand")) },
		"bound": func(_ *testing.T, l *ledger.Ledger) {
			l.Observe(ledger.Bound{UID: "c0", Member: inUnit("c"), Claimed: 2, Node: "on-demand"})
		},
		"limited": func(_ *testing.T, l *ledger.Ledger) {
			l.Observe(ledger.Bound{UID: "c0", Member: inUnit("c"), Claimed: 2, Limited: capacity.OnDemand, Pending: podNamed("c0")})
		},
		"about to be limited": func(_ *testing.T, l *ledger.Ledger) { l.Lean("c0", capacity.OnDemand) },
		"perhaps bound": func(t *testing.T, l *ledger.Ledger) {
			require.NoError(t, l.Reserve("c0", 2, "on-demand"))
			l.Doubt("c0")
			l.Unreserve("c0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledgerWithNodes(t)
			claims(t, l, "a", "b")
			for _, pod := range []string{"c0", "c1"} {
				assert.Equal(t, capacity.Spot, held(t, l, claimIn("c", pod)).Type)
			}
			run(t, l) // it borrowed
			hold := held(t, l, claimIn("c", "c1"))
			assert.Equal(t, ledger.Hold{
				Slot: 2, Type: capacity.OnDemand, Fixed: true, Attempt: ledger.Attempt{TypeChanged: true},
			}, hold)
			require.ErrorIs(t, l.Reserve("c1", 2, "spot"), ledger.ErrNoClaim, "it would be on both types")
			require.NoError(t, l.Reserve("c1", 2, "on-demand"))
		})
	}
}

// A pod exists for some time after its node: the garbage collector waits, and the node may come back.
func TestAUnitFollowsAPodWhoseNodeIsGone(t *testing.T) {
	l := ledgerWithNodes(t)
	claims(t, l, "a", "b")
	l.Observe(ledger.Bound{UID: "c0", Member: inUnit("c"), Claimed: 2, Node: "on-demand"}) // it borrowed
	l.DeleteNode("on-demand")
	hold := held(t, l, claimIn("c", "c1"))
	assert.Equal(t, []any{capacity.OnDemand, true}, []any{hold.Type, hold.Fixed})
	require.ErrorIs(t, l.Reserve("c1", 2, "spot"), ledger.ErrNoClaim)
	l.Forget("c0")
	hold = held(t, l, claimIn("c", "c1"))
	assert.Equal(t, []any{capacity.Spot, false}, []any{hold.Type, hold.Fixed})
}

func TestAUnitIsFreeAgainWhenNoneOfItsPodsRuns(t *testing.T) {
	l := ledgerWithNodes(t)
	claims(t, l, "a", "b")
	held(t, l, claimIn("c", "c0"))
	require.NoError(t, l.Reserve("c0", 2, "on-demand"))
	assert.True(t, held(t, l, claimIn("c", "c1")).Fixed)
	l.Unreserve("c0")
	hold := held(t, l, claimIn("c", "c1"))
	assert.Equal(t, capacity.Spot, hold.Type)
	assert.False(t, hold.Fixed)
}

func TestTheOthersOfAUnitAreWokenWhenItsTypeIsAnother(t *testing.T) {
	l := ledgerWithNodes(t)
	claims(t, l, "a", "b")
	for i := range 4 {
		held(t, l, claimIn("c", fmt.Sprint("c", i)))
	}
	observed := l.Observe(ledger.Bound{UID: "c0", Member: inUnit("c"), Claimed: 2, Node: "on-demand"})
	assert.Len(t, observed.Wake, 3)
	observed = l.Observe(ledger.Bound{UID: "c0", Member: inUnit("c"), Claimed: 2, Node: "on-demand"})
	assert.Len(t, observed.Wake, 3, "until they have claimed")
	for i := range 3 {
		held(t, l, claimIn("c", fmt.Sprint("c", i+1)))
	}
	assert.Empty(t, l.Observe(ledger.Bound{UID: "c0", Member: inUnit("c"), Claimed: 2, Node: "on-demand"}).Wake)
}

// They could borrow, or use the type of their slot, from now on.
func TestTheOthersOfAUnitAreWokenWhenNoneOfItRunsAnyMore(t *testing.T) {
	for name, test := range map[string]struct {
		reserved bool
		gone     func(l *ledger.Ledger) []*corev1.Pod
	}{
		"forgotten": {gone: func(l *ledger.Ledger) []*corev1.Pod { return l.Forget("c0") }},
		"relabelled": {gone: func(l *ledger.Ledger) []*corev1.Pod {
			return l.Observe(ledger.Bound{UID: "c0", Member: inUnit("d"), Claimed: 2, Node: "spot"}).Wake
		}},
		"not bound": {reserved: true, gone: func(l *ledger.Ledger) []*corev1.Pod { return l.Unreserve("c0") }},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledgerWithNodes(t)
			claims(t, l, "a", "b")
			held(t, l, claimIn("c", "c0"))
			held(t, l, claimIn("c", "early"))
			require.NoError(t, l.Reserve("c0", 2, "spot"))
			if !test.reserved {
				l.Observe(ledger.Bound{UID: "c0", Member: inUnit("c"), Claimed: 2, Node: "spot"})
			}
			require.True(t, held(t, l, claimIn("c", "c1")).Fixed)
			assert.Equal(t, []string{"c1"}, names(test.gone(l)), "and none that was free to borrow")
		})
	}
}

func TestAFreedSlotWakesAllPodsOfAUnit(t *testing.T) {
	l := ledgerWithNodes(t)
	claims(t, l, "a", "b", "c")
	for i := range 3 {
		held(t, l, claimIn("u", fmt.Sprint("u", i)))
	}
	assert.Len(t, l.Forget("c"), 3)
	assert.Equal(t, 2, held(t, l, claimIn("u", "u1")).Slot)
	assert.Equal(t, 2, held(t, l, claimIn("u", "u2")).Slot)
}

func TestAPodThatChangesItsUnitLeavesIt(t *testing.T) {
	l := ledgerWithNodes(t)
	l.Observe(ledger.Bound{UID: "a", Member: inUnit("one"), Claimed: 3, Node: "spot"})
	l.Observe(ledger.Bound{UID: "b", Member: inUnit("one"), Claimed: 3, Node: "spot"})
	l.Observe(ledger.Bound{UID: "b", Member: inUnit("two"), Claimed: 3, Node: "spot"})
	entries := l.Entries(webKey, webMix)
	require.Len(t, entries, 2)
	assert.NotEqual(t, entries[0].Slot, entries[1].Slot)
	l.Forget("a")
	l.Forget("b")
	assert.Equal(t, map[string]int{}, leftovers(l))
}

// leftovers are the sizes of what the ledger keeps of pods.
func leftovers(l *ledger.Ledger) map[string]int {
	sizes := l.Sizes()
	maps.DeleteFunc(sizes, func(name string, _ int) bool {
		return !slices.Contains([]string{"pods", "groups", "pods by node", "units"}, name)
	})
	return sizes
}

// fleet is a world of units: an API server with their pods, and a ledger that is fed as the plugin feeds it.
type fleet struct {
	t      *rapid.T
	ledger *ledger.Ledger
	mix    *governing.Mix
	pods   map[string]*fleetPod
	made   int
}

type fleetPod struct {
	unit, node string
	slot       int
	// sent is the node of a Binding that is on its way.
	sent string
}

func (p *fleetPod) bound() bool { return p.node != "" }

func (f *fleet) names(is func(*fleetPod) bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(f.pods)) {
		if is(f.pods[name]) {
			names = append(names, name)
		}
	}
	return names
}

// pick returns a pod that is suitable, nil if there is none.
func (f *fleet) pick(is func(*fleetPod) bool) (string, *fleetPod) {
	names := f.names(is)
	if len(names) == 0 {
		return "", nil
	}
	name := rapid.SampledFrom(names).Draw(f.t, "pod")
	return name, f.pods[name]
}

// try is a scheduling cycle of a pod that waits. It may borrow unless its unit runs.
func (f *fleet) try() {
	name, p := f.pick(func(p *fleetPod) bool { return !p.bound() && p.sent == "" })
	if p == nil {
		return
	}
	c := claimIn(p.unit, name)
	c.Governing = f.mix
	hold, err := f.ledger.Claim(c)
	require.NoError(f.t, err)
	node := nodeOf[hold.Type]
	if !hold.Fixed && rapid.Bool().Draw(f.t, "borrows") {
		node = nodeOf[hold.Type.Other()]
	}
	if rapid.IntRange(0, 4).Draw(f.t, "no node") > 0 {
		require.NoError(f.t, f.ledger.Reserve(types.UID(name), hold.Slot, node))
		p.sent, p.slot = node, hold.Slot
	}
}

// answer is what becomes of a Binding.
func (f *fleet) answer() {
	name, p := f.pick(func(p *fleetPod) bool { return p.sent != "" })
	if p == nil {
		return
	}
	node := p.sent
	p.sent = ""
	switch rapid.SampledFrom([]string{"bound", "bound", "refused", "lost", "lost answer"}).Draw(f.t, "answer") {
	case "bound":
		p.node = node
		f.observe(name)
	case "refused":
		f.ledger.Unreserve(types.UID(name))
	case "lost":
		f.ledger.Doubt(types.UID(name))
		f.ledger.Unreserve(types.UID(name))
	case "lost answer":
		f.ledger.Doubt(types.UID(name))
		f.ledger.Unreserve(types.UID(name))
		p.node = node // the watch has it later
	}
}

func (f *fleet) observe(name string) {
	p := f.pods[name]
	f.ledger.Observe(ledger.Bound{UID: types.UID(name), Member: inUnit(p.unit), Claimed: p.slot, Node: p.node})
}

func (f *fleet) leave() {
	if name, p := f.pick(func(*fleetPod) bool { return true }); p != nil {
		delete(f.pods, name)
		f.ledger.Forget(types.UID(name))
	}
}

// restart replaces the scheduler: what is not bound is lost.
func (f *fleet) restart() {
	before := f.slots()
	f.ledger = ledgerWithNodes(f.t)
	for _, name := range f.names(func(*fleetPod) bool { return true }) {
		if p := f.pods[name]; p.bound() {
			f.observe(name)
		} else {
			p.sent = "" // its Binding was never sent
		}
	}
	for unit, slot := range f.slots() {
		require.Equal(f.t, before[unit], slot, "a restart changes no slot of a unit that runs")
	}
}

// slots are those of the units that run, as the ledger has them.
func (f *fleet) slots() map[string]int {
	slots := map[string]int{}
	for _, e := range f.ledger.Entries(webKey, f.mix) {
		if p := f.pods[e.UID]; p != nil && p.bound() && e.Node != "" {
			slots[p.unit] = e.Slot
		}
	}
	return slots
}

func (f *fleet) check() {
	on, slots, units := map[string]string{}, map[string]int{}, map[int]string{}
	for _, name := range f.names((*fleetPod).bound) {
		p := f.pods[name]
		if other, runs := on[p.unit]; runs {
			require.Equal(f.t, other, p.node, "unit %s is on both types", p.unit)
		}
		on[p.unit] = p.node
	}
	for _, e := range f.ledger.Entries(webKey, f.mix) {
		unit := f.pods[e.UID].unit
		if slot, has := slots[unit]; has {
			require.Equal(f.t, slot, e.Slot, "unit %s holds two slots", unit)
		}
		if other, taken := units[e.Slot]; taken {
			require.Equal(f.t, other, unit, "slot %d", e.Slot)
		}
		slots[unit], units[e.Slot] = e.Slot, unit
	}
}

// No history of scheduling cycles, Bindings without an answer, pods that go, restarts and changes of the mix has a unit on both types,
// or gives a slot to two units.
func TestNoUnitIsEverOnBothTypes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fleet{t: t, ledger: ledgerWithNodes(t), mix: webMix, pods: map[string]*fleetPod{}}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			case 0, 1, 2:
				f.made++
				f.pods[fmt.Sprintf("pod-%03d", f.made)] = &fleetPod{unit: fmt.Sprint("unit-", rapid.IntRange(0, 4).Draw(t, "unit")), slot: split.NoSlot}
			case 3, 4, 5:
				f.try()
			case 6, 7, 8:
				f.answer()
			case 9:
				f.leave()
			case 10:
				f.restart()
			case 11:
				f.mix = &governing.Mix{Mix: split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 3).Draw(t, "floor"))}
			}
			for _, name := range f.names((*fleetPod).bound) { // the watch
				f.observe(name)
			}
			f.check()
		}
		for _, name := range f.names(func(*fleetPod) bool { return true }) {
			f.ledger.Forget(types.UID(name))
		}
		require.Empty(t, leftovers(f.ledger))
	})
}
