// SPDX-License-Identifier: Apache-2.0

package optimum

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"berth.dev/berth/internal/sim/scenario"
)

// mostWork bounds the steps of the exact computation.
const mostWork = 1 << 29

// rounding is the relative error of sums.
const rounding = 1e-12

// supply is the nodes that a pool can have.
type supply struct {
	onDemand bool
	dollars  float64 // of a node in an hour
	nodes    int
	size     size
	// pods is how many pods a node takes, where all have the same size.
	pods int
}

// suppliesOf are the nodes of the pools that have an effect: no more than are needed.
func suppliesOf(pools []scenario.NodePool, nodes []int, d demand, sizes []size) (list []supply) {
	for i := range pools {
		p := &pools[i]
		x := supply{onDemand: !p.Spot(), dollars: *p.DollarsPerHour, nodes: nodes[i], size: nodeSize(p)}
		if len(sizes) == 1 {
			need := d.all[0]
			if !x.onDemand {
				need -= d.onDemand[0]
			}
			if x.pods = fitting(x.size, sizes[0]); x.pods == 0 {
				x.nodes = 0
			} else {
				x.nodes = min(x.nodes, (int(need)+x.pods-1)/x.pods)
			}
			x.size = size{float64(x.pods)}
		}
		list = append(list, x)
	}
	return list
}

// fitting is how many pods of a size a node takes.
func fitting(node, pod size) int {
	n := node[0]
	for i := range pod {
		if pod[i] > 0 {
			n = min(n, math.Floor(node[i]/pod[i]))
		}
	}
	return int(n)
}

// fraction is a lower bound of the cost in an hour, with parts of nodes: the largest of those by one resource each. It returns false if
// the nodes are not enough.
func (x *situation) fraction() (dollars float64, fits bool) {
	for resource := range x.all {
		d, enough := x.fractionOf(resource)
		if !enough {
			return 0, false
		}
		dollars = max(dollars, d)
	}
	return dollars, true
}

// fractionOf takes the cheapest on-demand nodes for what may not be on spot nodes, and then the cheapest of all that are left.
func (x *situation) fractionOf(resource int) (dollars float64, fits bool) {
	list := slices.DeleteFunc(slices.Clone(x.supplies), func(s supply) bool { return s.nodes == 0 || s.size[resource] == 0 })
	price := func(s supply) float64 { return s.dollars / s.size[resource] }
	slices.SortStableFunc(list, func(a, b supply) int { return cmp.Compare(price(a), price(b)) })
	left := make([]float64, len(list))
	for i := range list {
		left[i] = float64(list[i].nodes)
	}
	take := func(need float64, spot bool) bool {
		short := need * rounding
		for i := range list {
			if list[i].onDemand || spot {
				nodes := min(left[i], need/list[i].size[resource])
				left[i], need, dollars = left[i]-nodes, need-nodes*list[i].size[resource], dollars+nodes*list[i].dollars
			}
		}
		return need <= short
	}
	fits = take(x.onDemand[resource], false) && take(x.all[resource]-x.onDemand[resource], true)
	return dollars, fits
}

// work is how many steps the exact computation takes.
func work(situations []situation) (steps int) {
	for i := range situations {
		for _, s := range situations[i].supplies {
			steps += int(situations[i].all[0]) * bits.Len(uint(s.nodes))
		}
	}
	return steps
}

// whole is the least cost in an hour with whole nodes, where all pods have the same size.
func (x *situation) whole() (dollars float64, fits bool) {
	wanted, floor := int(x.all[0]), int(x.onDemand[0])
	onDemand, spot := x.cheapest(true, wanted), x.cheapest(false, wanted-floor)
	dollars = math.Inf(1)
	for n := floor; n <= wanted; n++ {
		dollars = min(dollars, onDemand[n]+spot[wanted-n])
	}
	return dollars, !math.IsInf(dollars, 1)
}

// cheapest has the least cost of nodes of a type for each number of pods. The nodes of a pool are taken by powers of two and a rest, of
// which each number of nodes is a sum.
func (x *situation) cheapest(onDemand bool, pods int) []float64 {
	least := make([]float64, pods+1)
	for n := 1; n <= pods; n++ {
		least[n] = math.Inf(1)
	}
	for _, s := range x.supplies {
		if s.onDemand != onDemand {
			continue
		}
		for part, left := 1, s.nodes; left > 0; part *= 2 {
			nodes := min(part, left)
			left -= nodes
			for n := pods; n > 0; n-- {
				least[n] = min(least[n], least[max(0, n-nodes*s.pods)]+float64(nodes)*s.dollars)
			}
		}
	}
	return least
}
