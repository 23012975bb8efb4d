// SPDX-License-Identifier: Apache-2.0

package scalein_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/scalein"
	"berth.dev/berth/internal/mix/split"
)

const all = 1 << 20

func empty(string) scalein.Node { return scalein.Node{} }

// spot are replicas on spot slots, from slot 0, on the nodes that are named.
func spot(nodes ...string) (pods []scalein.Pod) {
	for slot, node := range nodes {
		pods = append(pods, scalein.Pod{ID: fmt.Sprintf("p%d", slot), Slot: slot, Type: capacity.Spot, Node: node})
	}
	return pods
}

// apply exchanges slots.
func apply(t require.TestingT, pods []scalein.Pod, swaps []scalein.Swap) []scalein.Pod {
	after := slices.Clone(pods)
	for _, s := range swaps {
		for _, c := range []scalein.Change{s.First, s.Second} {
			i := slices.IndexFunc(after, func(p scalein.Pod) bool { return p.ID == c.ID })
			require.Equal(t, c.From, after[i].Slot, "the slot of %s before", c.ID)
			after[i].Slot = c.To
		}
	}
	return after
}

// nodesBySlot are the nodes of replicas by their slot.
func nodesBySlot(pods []scalein.Pod) []string {
	nodes := make([]string, len(pods))
	for _, p := range pods {
		nodes[p.Slot] = p.Node
	}
	return nodes
}

func TestTheHighestSlotsMoveToTheNodeNearestToEmpty(t *testing.T) {
	for name, tc := range map[string]struct {
		now    []string
		nodeOf func(string) scalein.Node
		want   []string
	}{
		"the node with the fewest replicas is emptied first": {
			[]string{"one", "three", "three", "three"}, empty, []string{"three", "three", "three", "one"},
		},
		"equal nodes keep the order that they have": {
			[]string{"a", "b", "a", "b"}, empty, []string{"a", "a", "b", "b"},
		},
		"a node on which other pods stay is emptied last": {
			[]string{"free", "free", "shared"},
			func(node string) scalein.Node { return scalein.Node{Others: len(node) - len("free")} },
			[]string{"shared", "free", "free"},
		},
		"a cordoned node is emptied before smaller ones": {
			[]string{"cordoned", "cordoned", "open"},
			func(node string) scalein.Node { return scalein.Node{Closed: node == "cordoned"} },
			[]string{"open", "cordoned", "cordoned"},
		},
		"a replica whose slot is right keeps it": {
			[]string{"a", "a", "b", "b", "a", "c", "b", "c", "b"}, empty, []string{"b", "b", "b", "b", "a", "a", "a", "c", "c"},
		},
		"of equal nodes, one in the fullest domain is emptied first": {
			[]string{"a1", "a2", "a3", "b1", "a1", "a2", "a3", "b1"},
			func(node string) scalein.Node { return scalein.Node{Domain: node[:1]} },
			[]string{"a1", "a1", "b1", "b1", "a2", "a2", "a3", "a3"},
		},
		"of equal nodes, the one with the fewest other pods is emptied first": {
			[]string{"x", "xxx", "x", "xxx"},
			func(node string) scalein.Node { return scalein.Node{Others: len(node)} },
			[]string{"xxx", "xxx", "x", "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pods := spot(tc.now...)
			after := apply(t, pods, scalein.Swaps(pods, tc.nodeOf, all))
			assert.Equal(t, tc.want, nodesBySlot(after))
		})
	}
}

func TestSlotsThatAreEquallyGoodStay(t *testing.T) {
	for name, pods := range map[string][]scalein.Pod{
		"one node":                         spot("a", "a", "a"),
		"a replica on each node":           spot("c", "a", "b"),
		"the order is the best":            spot("a", "a", "a", "c", "c", "b"),
		"another order would be as good":   spot("b", "b", "a", "a"),
		"no replica":                       nil,
		"the types of the nodes are mixed": {{ID: "a", Slot: 0, Type: capacity.OnDemand, Node: "o"}, {ID: "b", Slot: 1, Type: capacity.Spot, Node: "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Empty(t, scalein.Swaps(pods, empty, all))
		})
	}
}

// What other workloads do on nodes that they share changes no slot: their pods only decide between nodes that are as good.
func TestOtherPodsAloneExchangeNoSlots(t *testing.T) {
	shared := func(node string) scalein.Node { return scalein.Node{Others: len(node)} }
	assert.Empty(t, scalein.Swaps(spot("xxx", "x", "xx"), shared, all))
}

// Between the two writes both replicas have the same place. For spot it is the higher one, for on-demand the lower one: a scale-in then
// removes a spot replica too many.
func TestAScaleInBetweenTwoWritesKeepsOnDemand(t *testing.T) {
	pods := spot("one", "two", "two")
	s := scalein.Swaps(pods, empty, all)
	require.Equal(t, []scalein.Swap{{First: scalein.Change{ID: "p0", From: 0, To: 2}, Second: scalein.Change{ID: "p2", From: 2, To: 0}}}, s)
	for i := range pods {
		pods[i].Type = capacity.OnDemand
	}
	s = scalein.Swaps(pods, empty, all)
	require.Equal(t, []scalein.Swap{{First: scalein.Change{ID: "p2", From: 2, To: 0}, Second: scalein.Change{ID: "p0", From: 0, To: 2}}}, s)
}

// world draws a group with its exact split on nodes that have one type each, and other pods.
func world(t *rapid.T) (m split.Mix, pods []scalein.Pod, nodeOf func(string) scalein.Node) {
	m = split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 4).Draw(t, "floor"))
	nodes, most := map[string]scalein.Node{}, rapid.IntRange(1, 8).Draw(t, "nodes")
	for slot := range rapid.IntRange(0, 40).Draw(t, "replicas") {
		on := m.TypeOf(slot)
		node := fmt.Sprintf("%s-%d", on, rapid.IntRange(0, most).Draw(t, "node"))
		if _, known := nodes[node]; !known {
			nodes[node] = scalein.Node{
				Others: max(0, rapid.IntRange(-3, 3).Draw(t, "others")), Closed: rapid.IntRange(0, 9).Draw(t, "closed") == 0,
				Domain: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "domain"),
			}
		}
		pods = append(pods, scalein.Pod{ID: fmt.Sprint(slot), Slot: slot, Type: on, Node: node})
	}
	return m, pods, func(name string) scalein.Node { return nodes[name] }
}

func TestSwapsKeepTheSplitAndAreNotRepeated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, pods, nodeOf := world(t)
		swaps, moved := scalein.Swaps(pods, nodeOf, all), 0
		require.Equal(t, swaps, scalein.Swaps(rapid.Permutation(pods).Draw(t, "order"), nodeOf, all), "the order of the pods decides nothing")
		after := apply(t, pods, swaps)
		require.Empty(t, scalein.Swaps(after, nodeOf, all), "nothing is written again")
		taken := map[int]bool{}
		for _, p := range after {
			require.False(t, taken[p.Slot], "slot %d is held twice", p.Slot)
			taken[p.Slot] = true
			require.Equal(t, m.TypeOf(p.Slot), p.Type, "so every size has its split")
		}
		for _, s := range swaps {
			require.NotEqual(t, s.First.ID, s.Second.ID)
			require.Equal(t, m.TypeOf(s.First.From), m.TypeOf(s.First.To))
			require.Equal(t, []int{s.First.From, s.First.To}, []int{s.Second.To, s.Second.From})
		}
		for slot, node := range nodesBySlot(after) {
			if nodesBySlot(pods)[slot] != node {
				moved++
			}
		}
		require.LessOrEqual(t, len(swaps), max(0, moved-1), "each exchange puts a slot where it stays, the last one two")
	})
}

// occupied is on how many nodes replicas run once all but those with the lowest slots have been removed.
func occupied(pods []scalein.Pod, size int) int {
	nodes := map[string]bool{}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b scalein.Pod) int { return cmp.Compare(a.Slot, b.Slot) })
	for _, p := range sorted[:min(size, len(sorted))] {
		nodes[p.Node] = true
	}
	return len(nodes)
}

// kept is how many nodes have pods, of whatever workload, if the lowest slots are left.
func kept(pods []scalein.Pod, nodeOf func(string) scalein.Node, size int) int {
	nodes := map[string]bool{}
	for _, p := range pods {
		if p.Slot < size || nodeOf(p.Node).Others > 0 {
			nodes[p.Node] = true
		}
	}
	return len(nodes)
}

func TestNoSizeKeepsMoreNodesThanBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, pods, nodeOf := world(t)
		open := func(name string) scalein.Node { return scalein.Node{Others: nodeOf(name).Others} }
		after := apply(t, pods, scalein.Swaps(pods, open, all))
		fewer := false
		for size := range pods {
			before, now := kept(pods, open, size), kept(after, open, size)
			require.LessOrEqual(t, now, before, "with %d of %d replicas", size, len(pods))
			fewer = fewer || now < before || occupied(after, size) < occupied(pods, size)
		}
		require.True(t, fewer || slices.Equal(pods, after), "an exchange lowers the number of nodes")
	})
}

// The fewest nodes that can keep so many replicas of a type, where replicas do not move: the fullest ones.
func TestEverySizeKeepsTheFewestNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, pods, _ := world(t)
		after := apply(t, pods, scalein.Swaps(pods, empty, all))
		for size := range pods {
			left, fewest := map[capacity.Type]int{capacity.Spot: m.Spot(size), capacity.OnDemand: m.OnDemand(size)}, 0
			for on, n := range left {
				for _, most := range fullest(pods, on) {
					if n > 0 {
						n, fewest = n-most, fewest+1
					}
				}
			}
			require.Equal(t, fewest, occupied(after, size), "nodes with %d of %d replicas", size, len(pods))
		}
	})
}

// fullest are the numbers of replicas on the nodes of a type, the largest first.
func fullest(pods []scalein.Pod, on capacity.Type) (counts []int) {
	byNode := map[string]int{}
	for _, p := range pods {
		if p.Type == on {
			byNode[p.Node]++
		}
	}
	for _, n := range byNode {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	return counts
}

// A list that is made in parts, each of what the parts before left, ends where the whole one does.
func TestPartsOfAListLeadToItsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, pods, nodeOf := world(t)
		whole, parts := apply(t, pods, scalein.Swaps(pods, nodeOf, all)), pods
		for range 2 * len(pods) {
			some := scalein.Swaps(parts, nodeOf, rapid.IntRange(1, 3).Draw(t, "at most"))
			if len(some) == 0 {
				break
			}
			require.LessOrEqual(t, len(some), 3)
			parts = apply(t, parts, some)
		}
		require.Empty(t, scalein.Swaps(parts, nodeOf, all), "it ends")
		for size := range pods {
			require.Equal(t, kept(whole, nodeOf, size), kept(parts, nodeOf, size), "nodes with %d of %d", size, len(pods))
		}
	})
}

// Ten nodes of four replicas, as in the measurements of docs/performance.md, with the slots where chance put them.
func TestTenNodesOfFourKeepTheOptimum(t *testing.T) {
	m := split.New(70, 2)
	sizes, sum := []int{30, 20, 10, 7}, [4]int{}
	const rounds = 200
	for round := range rounds {
		var nodes [3][]string
		for n := range 10 {
			on := capacity.Spot
			if n < m.OnDemand(40)/4 {
				on = capacity.OnDemand
			}
			for range 4 {
				nodes[on] = append(nodes[on], fmt.Sprint("node-", n))
			}
		}
		r := rand.New(rand.NewPCG(1, uint64(round)))
		var pods []scalein.Pod
		for _, places := range nodes {
			r.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		}
		for slot := range 40 {
			on := m.TypeOf(slot)
			pods = append(pods, scalein.Pod{ID: fmt.Sprint(slot), Slot: slot, Type: on, Node: nodes[on][0]})
			nodes[on] = nodes[on][1:]
		}
		after := apply(t, pods, scalein.Swaps(pods, empty, all))
		for i, optimum := range []int{9, 6, 3, 2} {
			require.Equal(t, optimum, occupied(after, sizes[i]), "nodes at %d", sizes[i])
			sum[i] += occupied(pods, sizes[i])
		}
	}
	t.Logf("nodes with pods at %v of 40, slots by chance: %.1f %.1f %.1f %.1f; exchanged: 9 6 3 2", sizes,
		float64(sum[0])/rounds, float64(sum[1])/rounds, float64(sum[2])/rounds, float64(sum[3])/rounds)
}
