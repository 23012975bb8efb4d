// SPDX-License-Identifier: Apache-2.0

// Package score values nodes for a pod: six functions from 0 to 100, the sum of their weighted values, and the strategies
// that select one of the best nodes. All are pure functions; docs/scheduling-policies.md defines them.
package score

import "math"

// Max is the highest value of a function.
const Max = 100

// ResourceBalance is the mean of how much CPU is free, how much memory is free, and how evenly both are used.
func ResourceBalance(cpu, memory, allocationRatio float64) float64 {
	return clamp((cpu + memory + allocationRatio) / 3)
}

// Spreading is the mean of how empty of siblings the node, its zone and its failure domain are.
func Spreading(node, zone, failureDomain float64) float64 {
	return clamp((node + zone + failureDomain) / 3)
}

// Binpacking is how much of the node is used, less a penalty for what cannot be used.
func Binpacking(consolidation, fragmentationPenalty float64) float64 {
	return clamp(consolidation - fragmentationPenalty)
}

// PreferredAffinity is the mean share of the preferences for other pods and for nodes that are met, from 0 to 1, times a
// weight.
func PreferredAffinity(pod, node, weight float64) float64 {
	return clamp((pod + node) / 2 * weight * Max)
}

// AntiAffinity is how well the pod's own preferences to be apart are met, less a penalty for those of other pods.
func AntiAffinity(separation, penalty float64) float64 { return clamp(separation - penalty) }

// TopologySpread is how evenly constraints are met, less a penalty for a skew above the maximum.
func TopologySpread(constraint, skewPenalty float64) float64 { return clamp(constraint - skewPenalty) }

// clamp bounds a value to 0 to 100. What is not a number is 0.
func clamp(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), Max)
}

// Utilization is the share of a capacity that is used, from 0 to 1; 0 if there is no capacity.
func Utilization(used, capacity int64) float64 {
	if capacity <= 0 || used <= 0 {
		return 0
	}
	return min(1, float64(used)/float64(capacity))
}

// balance are the components of ResourceBalance from the utilization of CPU and memory: how much of each is free, and how
// near the two are to each other.
func balance(cpu, memory float64) (cpuScore, memoryScore, allocationRatio float64) {
	return Max * (1 - cpu), Max * (1 - memory), Max * (1 - math.Abs(cpu-memory))
}

// consolidation is the mean utilization in percent: the score of the strategy MostAllocated.
func consolidation(cpu, memory float64) float64 { return Max * (cpu + memory) / 2 }

// fragmentationWeight is the penalty, in points, of a node on which one resource is used up and the other is free.
const fragmentationWeight = 25

// fragmentation is the penalty for capacity of one resource that remains when the other is used up.
func fragmentation(cpu, memory float64) float64 { return fragmentationWeight * math.Abs(cpu-memory) }

// emptiness is 100 for a domain without siblings and 0 for the one with the most.
func emptiness(count, most int) float64 {
	if most <= 0 {
		return Max
	}
	return Max * (1 - float64(count)/float64(most))
}

// Share is a part of a total weight from 0 to 1; 0 if there is no weight.
func Share(met, total int64) float64 {
	if total <= 0 {
		return 0
	}
	return float64(met) / float64(total)
}

// skewWeight is the penalty, in points, for each pod of skew above the maximum.
const skewWeight = 25

// Evenness values one topology spread constraint for a node: count, least and most are the numbers of matching pods in the
// node's domain, in the emptiest and in the fullest one. The constraint is 100 in the emptiest domain and 0 in the fullest;
// the penalty grows with the skew that the pod would cause above maxSkew.
func Evenness(count, least, most int, maxSkew int32) (constraint, penalty float64) {
	constraint = Max
	if most > least {
		constraint = Max * float64(most-count) / float64(most-least)
	}
	excess := count + 1 - least - int(maxSkew)
	return constraint, min(Max, skewWeight*float64(max(0, excess)))
}
