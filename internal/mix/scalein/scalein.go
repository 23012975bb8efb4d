// SPDX-License-Identifier: Apache-2.0

// Package scalein decides which replicas of a group exchange their slots, so that a scale-in, which removes the highest slots first,
// empties one node after the other. It is a pure function. Replicas exchange slots only with replicas of the same capacity type, so the
// group has its split at every size as before.
package scalein

import (
	"cmp"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

// Pod is a replica that runs on a node of the type of its slot.
type Pod struct {
	ID   string
	Slot int
	Type capacity.Type
	Node string
}

// Node is what else counts of a node.
type Node struct {
	// Domain is what is reclaimed, or fails, together with it.
	Domain string
	// Others are the pods on it that are not of the group, and stay if the group is scaled in.
	Others int
	// Closed nodes take no pods: someone is about to drain them.
	Closed bool
}

// Change is a slot that a replica takes in exchange for its own.
type Change struct {
	ID       string
	From, To int
}

// Swap is an exchange of two slots. First is written before Second. Until Second is written, both replicas have the same place in the
// order of removal. First is such that a scale-in between the two leaves a replica too many on on-demand nodes rather than one too few.
type Swap struct{ First, Second Change }

// Swaps returns the exchanges after which the group keeps as few nodes as it can at every size below its own, at most limit of them,
// those of the highest slots first. It returns none if the slots are as good already. What is left of a longer list follows from the
// slots after the exchanges.
func Swaps(pods []Pod, nodeOf func(name string) Node, limit int) (swaps []Swap) {
	for _, t := range []capacity.Type{capacity.Spot, capacity.OnDemand} {
		swaps = append(swaps, swapsOf(sideOf(pods, t), nodeOf, limit-len(swaps))...)
	}
	return swaps
}

// sideOf returns the replicas of a type in the order in which a scale-in removes them.
func sideOf(pods []Pod, t capacity.Type) (side []Pod) {
	for _, p := range pods {
		if p.Type == t {
			side = append(side, p)
		}
	}
	slices.SortFunc(side, func(a, b Pod) int { return cmp.Compare(b.Slot, a.Slot) })
	return side
}

func swapsOf(side []Pod, nodeOf func(string) Node, limit int) (swaps []Swap) {
	now := make([]string, len(side))
	for i, p := range side {
		now[i] = p.Node
	}
	hosts := hostsOf(side, nodeOf)
	best := orderOf(hosts)
	if slices.EqualFunc(emptied(now, hosts), emptied(best, hosts), slices.Equal) {
		return nil
	}
	for i := range side {
		if side[i].Node == best[i] {
			continue
		}
		if len(swaps) == limit {
			break
		}
		j := partner(side, best, i)
		swaps = append(swaps, swap(side[i], side[j]))
		side[i], side[j] = with(side[j], side[i].Slot), with(side[i], side[j].Slot)
	}
	return swaps
}

// partner returns the replica that takes the slot of another one: one that runs where the slot belongs, and preferably has a slot that
// belongs where the other one runs.
func partner(side []Pod, best []string, i int) (found int) {
	for j := i + 1; j < len(side); j++ {
		switch {
		case side[j].Node != best[i] || best[j] == best[i]:
		case best[j] == side[i].Node:
			return j
		case found == 0:
			found = j
		}
	}
	return found
}

func with(p Pod, slot int) Pod {
	p.Slot = slot
	return p
}

// swap exchanges the slots of two replicas.
func swap(high, low Pod) Swap {
	up, down := Change{ID: low.ID, From: low.Slot, To: high.Slot}, Change{ID: high.ID, From: high.Slot, To: low.Slot}
	if high.Type == capacity.Spot { // both are removed early
		return Swap{First: up, Second: down}
	}
	return Swap{First: down, Second: up}
}

// host is a node with replicas of one type of the group.
type host struct {
	Node
	name string
	// pods is how many replicas it has, and rank the sum of their slots.
	pods, rank int
}

// class orders nodes by what it means that they have no replicas any more: those that are drained anyway need not evict any, those
// without other pods are empty, and the others are not.
func (h *host) class() int {
	switch {
	case h.Closed:
		return 0
	case h.Others == 0:
		return 1
	}
	return 2
}

const classes = 3

func hostsOf(side []Pod, nodeOf func(string) Node) map[string]*host {
	hosts := map[string]*host{}
	for _, p := range side {
		h := hosts[p.Node]
		if h == nil {
			h = &host{Node: nodeOf(p.Node), name: p.Node}
			hosts[p.Node] = h
		}
		h.pods++
		h.rank += p.Slot
	}
	return hosts
}

// orderOf returns the nodes of the replicas in the best order of their removal: in each class those with the fewest first, so that as many
// as possible are empty at every size. Of equal nodes, that of the domain with the most replicas comes first, so that the others keep
// theirs, then those that would be emptied first already.
func orderOf(hosts map[string]*host) (order []string) {
	sorted, inDomain := make([]*host, 0, len(hosts)), map[string]int{}
	for _, h := range hosts {
		sorted = append(sorted, h)
		inDomain[h.Domain] += h.pods
	}
	slices.SortFunc(sorted, func(a, b *host) int {
		return cmp.Or(a.compare(b), cmp.Compare(a.Others, b.Others), cmp.Compare(b.rank, a.rank), cmp.Compare(a.name, b.name))
	})
	for len(sorted) > 0 {
		next := 0
		for i, h := range sorted {
			if h.compare(sorted[0]) == 0 && inDomain[h.Domain] > inDomain[sorted[next].Domain] {
				next = i
			}
		}
		h := sorted[next]
		sorted = slices.Delete(sorted, next, next+1)
		inDomain[h.Domain] -= h.pods
		for range h.pods {
			order = append(order, h.name)
		}
	}
	return order
}

// compare orders nodes by what decides how many are empty at a size.
func (h *host) compare(o *host) int {
	return cmp.Or(cmp.Compare(h.class(), o.class()), cmp.Compare(h.pods, o.pods))
}

// emptied returns, for each class, after how many removals one of its nodes has no replica any more. Two orders of removal with the same
// result are equally good.
func emptied(order []string, hosts map[string]*host) [][]int {
	left, after := make(map[string]int, len(hosts)), make([][]int, classes)
	for i, node := range order {
		h := hosts[node]
		if left[node]++; left[node] == h.pods {
			after[h.class()] = append(after[h.class()], i)
		}
	}
	return after
}
