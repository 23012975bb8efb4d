// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/perf/bench"
)

// placement is a bound pod.
type placement struct {
	pod, node string
	// committed orders the bindings as etcd took them, received as the API server was told. slot is Berth's order of
	// decision, mix.NoSlot of a pod without.
	committed, received int64
	slot                int
}

// quality says how far the workloads were from their mix, at every prefix and in
// the end, and how evenly the pods are spread over the nodes.
//
// Schedulers bind many pods at a time, and etcd does not take the bindings in the
// order in which they were decided: that order is known of Berth only, by the
// slots, and the error in it is that of the decisions. In the order of the
// bindings what is under way counts too, for every peer.
func quality(placed []placement, nodes int, v bench.Values) {
	committed := func(a, b placement) int { return cmp.Compare(a.committed, b.committed) }
	received := func(a, b placement) int { return cmp.Or(cmp.Compare(a.received, b.received), committed(a, b)) }
	v["mix_error_pods"], v["mix_error_mean_pods"] = mixError(placed, committed)
	v["mix_error_received_pods"], v["mix_error_received_mean_pods"] = mixError(placed, received)
	if !slices.ContainsFunc(placed, func(p placement) bool { return p.slot == split.NoSlot }) {
		decided := func(a, b placement) int { return cmp.Compare(a.slot, b.slot) }
		v["mix_error_decided_pods"], v["mix_error_decided_mean_pods"] = mixError(placed, decided)
	}
	v["mix_error_end_pods"] = endError(placed)
	v["balance_deviation_pods"] = balance(placed, nodes)
}

// mixError is the largest error of any workload, and the mean over all.
func mixError(placed []placement, order func(a, b placement) int) (most, mean float64) {
	orders := map[string][]capacity.Type{}
	for _, p := range slices.SortedStableFunc(slices.Values(placed), order) {
		orders[groupOf(p.pod)] = append(orders[groupOf(p.pod)], typeOf(p.node))
	}
	for _, order := range orders {
		m, average := bench.MixError(rule, order)
		most, mean = max(most, float64(m)), mean+average/float64(len(orders))
	}
	return most, mean
}

// endError is the largest error of any workload once all is bound.
func endError(placed []placement) (most float64) {
	counts := map[string]*split.Count{}
	for _, p := range placed {
		g := groupOf(p.pod)
		if counts[g] == nil {
			counts[g] = &split.Count{}
		}
		counts[g].Add(typeOf(p.node))
	}
	for _, c := range counts {
		most = max(most, math.Abs(float64(c.Spot-rule.Spot(c.Total()))))
	}
	return most
}

// balance is the standard deviation of the number of pods on a node.
func balance(placed []placement, nodes int) float64 {
	on := map[string]float64{}
	for _, p := range placed {
		on[p.node]++
	}
	perNode := slices.AppendSeq(make([]float64, 0, nodes), maps.Values(on))
	for len(perNode) < nodes {
		perNode = append(perNode, 0)
	}
	return bench.Deviation(perNode)
}
