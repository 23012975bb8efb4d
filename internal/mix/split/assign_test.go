// SPDX-License-Identifier: Apache-2.0

package split_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

func pod(id string, created int64, slot int, on capacity.Type) split.Pod {
	return split.Pod{ID: id, Created: created, Slot: slot, On: on}
}

func slotsOf(assignments []split.Assignment) map[string]int {
	m := map[string]int{}
	for _, s := range assignments {
		m[s.ID] = s.Slot
	}
	return m
}

func TestAssign(t *testing.T) {
	const none = split.NoSlot
	// 70 %, minOnDemand 2: slots 0 and 1 are on-demand, 2 to 4 spot.
	m := split.New(70, 2)
	tests := map[string]struct {
		pods []split.Pod
		want map[string]int
	}{
		"pods keep the slots that they claimed": {
			pods: []split.Pod{pod("a", 1, 4, capacity.Spot), pod("b", 2, 0, capacity.OnDemand)},
			want: map[string]int{"a": 4, "b": 0},
		},
		"a pod that another scheduler bound takes the lowest free slot of its type": {
			pods: []split.Pod{pod("a", 1, none, capacity.Spot), pod("b", 2, none, capacity.OnDemand), pod("c", 3, 0, capacity.OnDemand)},
			want: map[string]int{"a": 2, "b": 1, "c": 0},
		},
		"the oldest chooses first, ties by ID": {
			pods: []split.Pod{pod("young", 9, none, capacity.Spot), pod("z", 1, none, capacity.Spot), pod("y", 1, none, capacity.Spot)},
			want: map[string]int{"y": 2, "z": 3, "young": 4},
		},
		"of two pods with one slot the oldest keeps it": {
			pods: []split.Pod{pod("b", 2, 3, capacity.Spot), pod("a", 1, 3, capacity.Spot)},
			want: map[string]int{"a": 3, "b": 2},
		},
		"a pod on a node of unknown type does not fill the floor": {
			pods: []split.Pod{pod("a", 1, none, capacity.Unknown)},
			want: map[string]int{"a": 2},
		},
		"an absurd slot is no slot": {
			pods: []split.Pod{pod("a", 1, 1<<30, capacity.Spot), pod("b", 2, -7, capacity.OnDemand)},
			want: map[string]int{"a": 2, "b": 0},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, slotsOf(split.Assign(m, tc.pods)))
		})
	}
}

func TestAssignBorrowsWhereTheSequenceHasNoSlotOfTheType(t *testing.T) {
	assignments := split.Assign(split.New(0, 0), []split.Pod{pod("a", 1, split.NoSlot, capacity.Spot)})
	require.Len(t, assignments, 1)
	assert.Equal(t, 0, assignments[0].Slot)
	assert.True(t, assignments[0].Borrowed())

	assignments = split.Assign(split.New(100, 1), []split.Pod{
		pod("a", 1, split.NoSlot, capacity.OnDemand), pod("b", 2, split.NoSlot, capacity.OnDemand),
	})
	assert.Equal(t, map[string]int{"a": 0, "b": 1}, slotsOf(assignments))
	assert.False(t, assignments[0].Borrowed())
	assert.True(t, assignments[1].Borrowed())
}

func podsOf(t *rapid.T, most int) []split.Pod {
	n := rapid.IntRange(0, most).Draw(t, "pods")
	pods := make([]split.Pod, n)
	for i := range pods {
		pods[i] = split.Pod{
			ID:      fmt.Sprintf("pod-%d", i),
			Created: rapid.Int64Range(0, 5).Draw(t, "created"),
			Slot:    rapid.IntRange(-1, 30).Draw(t, "slot"),
			On:      capacity.Type(rapid.IntRange(0, 2).Draw(t, "on")),
		}
	}
	return pods
}

func TestAssignGivesEveryPodOneSlotInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, pods := mixes().Draw(t, "mix"), podsOf(t, 25)
		assignments := split.Assign(m, pods)
		require.Len(t, assignments, len(pods))
		used := map[int]string{}
		for i, s := range assignments {
			assert.Empty(t, used[s.Slot], "slot %d is held twice", s.Slot)
			used[s.Slot] = s.ID
			assert.Equal(t, m.TypeOf(s.Slot), s.Wants)
			if i > 0 {
				assert.Less(t, assignments[i-1].Slot, s.Slot)
			}
		}
		shuffled := rapid.Permutation(pods).Draw(t, "shuffled")
		assert.Equal(t, assignments, split.Assign(m, shuffled), "the order of the pods decides nothing")
	})
}

func TestAssignLeavesNoSlotFreeBelowAnUnassignedPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, pods := mixes().Draw(t, "mix"), podsOf(t, 20)
		assignments := split.Assign(m, pods)
		own := map[string]int{}
		for _, p := range pods {
			own[p.ID] = p.Slot
		}
		taken := map[int]bool{}
		for _, s := range assignments {
			taken[s.Slot] = true
		}
		for _, s := range assignments {
			if own[s.ID] == s.Slot || s.Borrowed() {
				continue
			}
			for slot := range s.Slot {
				assert.False(
					t, !taken[slot] && m.TypeOf(slot) == s.On, "slot %d of type %s is free below %s on %d", slot, s.On,
					s.ID, s.Slot,
				)
			}
		}
	})
}

// next is the slot of a new pod of the group: the lowest free one.
func next(m split.Mix, pods []split.Pod) int {
	var taken split.Slots
	for _, s := range split.Assign(m, pods) {
		taken.Take(s.Slot)
	}
	return taken.Lowest()
}

// A scale-up by claims of the lowest free slot, each placed on its slot's type, is exact at every size and moves no
// pod.
func TestGrowthIsExactAtEverySizeAndNeverMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixes().Draw(t, "mix")
		var pods []split.Pod
		for i := range rapid.IntRange(0, 60).Draw(t, "n") {
			slot := next(m, pods)
			require.Equal(t, i, slot)
			pods = append(pods, pod(fmt.Sprint(i), int64(i), slot, m.TypeOf(slot)))
			assignments := split.Assign(m, pods)
			assert.True(t, m.Exact(split.CountOf(assignments)))
			assert.Empty(t, split.WrongSide(m, assignments, 0))
			for _, s := range assignments {
				assert.Equal(t, fmt.Sprint(s.Slot), s.ID, "no pod moved")
			}
		}
		for len(pods) > 0 { // removing the highest slot first stays exact
			pods = pods[:len(pods)-1]
			assert.True(t, m.Exact(split.CountOf(split.Assign(m, pods))))
		}
	})
}

// Whatever pods are deleted, claims of the lowest free slots restore the exact split.
func TestRefilledHolesRestoreTheExactSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixes().Draw(t, "mix")
		n := rapid.IntRange(1, 60).Draw(t, "n")
		var pods []split.Pod
		for i := range n {
			if rapid.Bool().Draw(t, "stays") {
				pods = append(pods, pod(fmt.Sprint(i), 0, i, m.TypeOf(i)))
			}
		}
		for i := 0; len(pods) < n; i++ {
			slot := next(m, pods)
			pods = append(pods, pod(fmt.Sprintf("new-%d", i), 1, slot, m.TypeOf(slot)))
		}
		assert.True(t, m.Exact(split.CountOf(split.Assign(m, pods))))
	})
}

func TestWrongSideIsTheFewestMovesToTheExactSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, pods := mixes().Draw(t, "mix"), podsOf(t, 25)
		assignments := split.Assign(m, pods)
		before := split.CountOf(assignments)
		wrong := split.WrongSide(m, assignments, 0)
		// At least every pod on a node of unknown type moves, and every pod above either share.
		want := before.Unknown + max(0, before.Spot-m.Spot(before.Total())) + max(0, before.OnDemand-m.OnDemand(before.Total()))
		assert.Len(t, wrong, want)
		after := before
		for _, s := range wrong {
			switch s.On {
			case capacity.Spot:
				after.Spot--
				after.OnDemand++
			case capacity.OnDemand:
				after.OnDemand--
				after.Spot++
			case capacity.Unknown: // moves to the type that lacks replicas
				after.Unknown--
				if after.Spot < m.Spot(after.Total()) {
					after.Spot++
				} else {
					after.OnDemand++
				}
			}
		}
		if before.Unknown == 0 {
			assert.True(t, m.Exact(after), "after the moves: %+v of %s", after, m)
		}
	})
}

func TestWrongSideNamesBorrowedPodsFirst(t *testing.T) {
	m := split.New(50, 0) // slots: on-demand, spot, on-demand, spot
	assignments := split.Assign(m, []split.Pod{
		pod("a", 1, 0, capacity.OnDemand), pod("b", 2, 1, capacity.OnDemand),
		pod("c", 3, 2, capacity.OnDemand), pod("d", 4, 3, capacity.Spot),
	})
	wrong := split.WrongSide(m, assignments, 0)
	require.Len(t, wrong, 1)
	assert.Equal(t, "b", wrong[0].ID)

	wrong = split.WrongSide(split.New(0, 0), split.Assign(m, []split.Pod{
		pod("low", 1, 1, capacity.Spot), pod("high", 2, 3, capacity.Spot),
	}), 0)
	require.Len(t, wrong, 2)
	assert.Equal(t, "high", wrong[0].ID, "then the highest slots, as a scale-down would")
}

func FuzzAssign(f *testing.F) {
	f.Add(int32(70), int32(2), int32(5), []byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add(int32(0), int32(0), int32(0), []byte{255, 255, 1, 1})
	f.Fuzz(func(t *testing.T, percent, floor, maxSpot int32, raw []byte) {
		m := split.Mix{SpotPercent: percent, MinOnDemand: floor, MaxSpot: maxSpot}
		if m.Validate() != nil || len(raw) > 400 {
			t.Skip()
		}
		var pods []split.Pod
		for i := 0; i+1 < len(raw); i += 2 {
			slot := int(int8(raw[i]))
			if raw[i] == 77 {
				slot = int(raw[i+1]) << 24
			}
			pods = append(pods, pod(fmt.Sprint(i), int64(raw[i+1]>>4), slot, capacity.Type(raw[i+1]%3)))
		}
		assignments := split.Assign(m, pods)
		seen := map[int]bool{}
		for _, s := range assignments {
			if seen[s.Slot] || s.Slot < 0 || s.Slot > split.MaxSlot {
				t.Fatalf("slot %d of %+v", s.Slot, m)
			}
			seen[s.Slot] = true
		}
		split.WrongSide(m, assignments, 0)
	})
}

func BenchmarkAssign(b *testing.B) {
	m := split.New(70, 2)
	for _, n := range []int{10, 1000} {
		pods := make([]split.Pod, n)
		for i := range pods {
			pods[i] = pod(fmt.Sprint(i), int64(i), i, m.TypeOf(i))
		}
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				split.Assign(m, pods)
			}
		})
	}
}

// Gaps are closed without a pod that changes its type, and not at the cost of others.
func TestCloseMovesPodsOnlyToFreeSlotsOfTheirType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixes().Draw(t, "mix")
		var pods []split.Pod
		for i, slot := range rapid.SliceOfNDistinct(rapid.IntRange(0, 40), 0, 20, rapid.ID[int]).Draw(t, "slots") {
			pods = append(pods, pod(fmt.Sprint(i), int64(i), slot, m.TypeOf(slot)))
		}
		assignments, n := split.Assign(m, pods), len(pods)
		before := slotsOf(assignments)
		m.Close(assignments, n)
		used, missing := map[int]bool{}, split.Count{Spot: m.Spot(n), OnDemand: m.OnDemand(n)}
		for i, s := range assignments {
			require.False(t, used[s.Slot], "slot %d is held twice", s.Slot)
			used[s.Slot] = true
			require.True(t, i == 0 || assignments[i-1].Slot < s.Slot, "they are sorted")
			require.Equal(t, m.TypeOf(before[s.ID]), m.TypeOf(s.Slot))
			require.True(t, s.Slot == before[s.ID] || before[s.ID] >= n && s.Slot < n, "from %d to %d", before[s.ID], s.Slot)
			if s.On == capacity.Spot {
				missing.Spot--
			} else {
				missing.OnDemand--
			}
		}
		for _, s := range assignments {
			for free := range n {
				require.False(t, s.Slot >= n && !used[free] && m.TypeOf(free) == s.Wants, "slot %d, while %d is free", s.Slot, free)
			}
			require.False(t, s.Slot >= n && missing == split.Count{}, "slot %d, although the split is exact", s.Slot)
		}
	})
}
