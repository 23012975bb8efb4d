// SPDX-License-Identifier: Apache-2.0

package score

import (
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/rules"
)

// Facts are what the functions get of a node. Functions that rules do not have need no facts.
type Facts struct {
	// CPU and Memory are the utilization of the node with the pod, from 0 to 1.
	CPU, Memory float64
	// OnNode, InZone and InDomain are the numbers of siblings there.
	OnNode, InZone, InDomain int
	// Preferred are the shares of the preferences of the pod that are met: for other pods and for nodes, from 0 to 1. A kind
	// without preferences has the share of the other kind, so that it neither raises nor lowers the mean.
	PreferredPods, PreferredNodes float64
	// Separation is the share, in percent, of the pod's preferences to be apart that are met, and Repelled that of other pods
	// that are not.
	Separation, Repelled float64
	// Constraint and SkewPenalty are the means of Evenness over the pod's constraints.
	Constraint, SkewPenalty float64
}

// Most are the largest numbers of siblings of any node, zone and failure domain of the cluster.
type Most struct{ OnNode, InZone, InDomain int }

// Load is the mean utilization of CPU and memory with the pod.
func (f *Facts) Load() float64 { return (f.CPU + f.Memory) / 2 }

// Affinity is the value of PreferredAffinity.
func (f *Facts) Affinity() float64 { return PreferredAffinity(f.PreferredPods, f.PreferredNodes, 1) }

// Value is the value of a function for a node, from 0 to 100.
func Value(name v1alpha1.ScoreFunctionName, f *Facts, most Most) float64 {
	switch name {
	case v1alpha1.ScoreResourceBalance:
		return ResourceBalance(balance(f.CPU, f.Memory))
	case v1alpha1.ScoreSpreading:
		return Spreading(emptiness(f.OnNode, most.OnNode), emptiness(f.InZone, most.InZone), emptiness(f.InDomain, most.InDomain))
	case v1alpha1.ScoreBinpacking:
		return Binpacking(consolidation(f.CPU, f.Memory), fragmentation(f.CPU, f.Memory))
	case v1alpha1.ScorePreferredAffinity:
		return f.Affinity()
	case v1alpha1.ScoreAntiAffinity:
		return AntiAffinity(f.Separation, f.Repelled)
	case v1alpha1.ScoreTopologySpread:
		return TopologySpread(f.Constraint, f.SkewPenalty)
	}
	return 0
}

// Sum is the score of a node: the sum of the values of functions times their coefficients.
func Sum(functions []rules.Function, f *Facts, most Most) (sum float64) {
	for i := range functions {
		sum += functions[i].Coefficient * Value(functions[i].Name, f, most)
	}
	return sum
}
