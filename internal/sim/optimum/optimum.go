// SPDX-License-Identifier: Apache-2.0

// Package optimum computes the least cost of a scenario with all interruptions known in advance. No policy has all wanted replicas Ready
// at a lower cost, so the ratio of a cost to the optimum is what a policy pays for what it cannot foresee.
//
// At each time, the nodes are the cheapest set with capacity for the wanted replicas of all workloads, and with on-demand capacity for
// those that may not run on spot: minOnDemand of each workload, and what is above its maxSpot. The percentage of a mix does not count.
// Replicas and nodes come, go and move at once, without a cost and without a loss. A pool has at most these nodes:
//
//   - At most max, and before launchSeconds at most those of the start. A time before then at which the capacity is not enough costs
//     nothing.
//   - A spot pool has at most as many as its trace has, now or within the last noticeSeconds: nodes with a notice still run.
//   - After a time without any, it has nodes from launchSeconds on, less the time that a provider takes to refuse a node: where nodes are
//     available for a shorter time, it has none.
//   - Interruptions by a rate leave the number of nodes as it is.
//
// Where all pods have the same size, the cost is exact: each node is a whole one. Otherwise, and in very large scenarios, it is a lower
// bound, with parts of nodes: the largest of those by CPU, by memory and by the number of pods.
package optimum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth.dev/berth/internal/sim/scenario"
)

// FailsAfter is how long a provider takes to refuse a node. One that it does not refuse then comes.
const FailsAfter = 8 * time.Second

// mostLookups bounds the numbers of nodes that are looked at: the changes of a scenario times its node pools.
const mostLookups = 1 << 21

// Optimum is the least cost of a scenario.
type Optimum struct {
	// Dollars is nil where there is none.
	Dollars *float64
	// Note is what the figure is, or why there is none, in a sentence.
	Note string
}

// Of returns the optimum of a scenario. Once the context ends, there is none.
func Of(ctx context.Context, s *scenario.Scenario) Optimum {
	for i := range s.NodePools {
		if p := &s.NodePools[i]; p.DollarsPerHour == nil {
			return none("node pool %s has no price", p.Name)
		}
	}
	sizes := sizesOf(s)
	t := timelineOf(s, sizes)
	if len(t.changes)*len(s.NodePools) > mostLookups {
		return none("there are too many changes and node pools")
	}
	situations, dollars := t.situations(ctx, s, sizes), 0.0
	exact := len(sizes) <= 1 && work(situations) <= mostWork
	for i := range situations {
		if ctx.Err() != nil {
			break
		}
		x := &situations[i]
		perHour, fits := x.fraction()
		if exact && fits {
			perHour, fits = x.whole()
		}
		switch {
		case fits:
			dollars += perHour * x.lasts.Hours()
		case x.at >= 0:
			return none("after %s, the nodes that can be there have no capacity for all replicas", x.at)
		}
	}
	if err := context.Cause(ctx); err != nil { // what there is is a part
		return none("%v", err)
	}
	return Optimum{Dollars: &dollars, Note: fmt.Sprintf(noteOf(s, exact), dollars)}
}

// noteOf is the sentence about the figure of a scenario, in dollars.
func noteOf(s *scenario.Scenario, exact bool) string {
	switch {
	case !exact:
		return "All wanted replicas cost at least $%.2f, with all interruptions known in advance: a lower bound, with parts of nodes"
	case slices.ContainsFunc(s.NodePools, func(p scenario.NodePool) bool { return p.Fixed }):
		return "All wanted replicas cost at least $%.2f, with all interruptions known in advance: a lower bound, without the nodes of pools of a " +
			"fixed size that no replica needs"
	}
	return "The least cost of all wanted replicas, with all interruptions known in advance, is $%.2f"
}

func none(reason string, args ...any) Optimum {
	return Optimum{Note: "The least cost is unknown: " + fmt.Sprintf(reason, args...)}
}

// Ratio returns a cost in relation to the optimum, nil where one of both is unknown or the optimum is zero.
func (o Optimum) Ratio(dollars *float64) *float64 {
	if dollars == nil || o.Dollars == nil || *o.Dollars <= 0 {
		return nil
	}
	return new(*dollars / *o.Dollars)
}
