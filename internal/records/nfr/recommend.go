// SPDX-License-Identifier: Apache-2.0

package nfr

import (
	"fmt"
	"math"

	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

// The constants of oprc-crm's formulas.
const (
	// CPUPerReplica is the CPU that a replica is reckoned with, in millicores.
	CPUPerReplica = 500
	// SlowMilliseconds is the latency above which one more replica is recommended.
	SlowMilliseconds = 250
	// CPUHeadroom is the factor from CPU use to recommendation.
	CPUHeadroom = 1.3
	// MemoryHeadroom is the factor from memory use to recommendation.
	MemoryHeadroom = 1.2
	// ConfidencePercent is how sure every recommendation is.
	ConfidencePercent = 60
	// IdleRPS is the rate, in requests a second, below which what a request costs cannot be worked out: most of the CPU is
	// then not for requests.
	IdleRPS = 0.1
)

// Replicas returns how many replicas a component should have: 500 millicores for each, scaled from the requests that there
// are to those that must be possible, and one more if it is slow. At least 1. targetRPS 0 is no requirement. Without requests
// the CPU counts as it is.
func Replicas(o Observed, targetRPS int32) int64 {
	load := o.CPUMillicores.Value() * scale(o, targetRPS)
	n := max(1, ceil(load/CPUPerReplica))
	if slow(o) && n < math.MaxInt32 {
		n++
	}
	return min(n, math.MaxInt32)
}

// scale is how many times the requests of now must be possible.
func scale(o Observed, targetRPS int32) float64 {
	if targetRPS <= 0 || o.RPS.Value() < IdleRPS {
		return 1
	}
	return float64(targetRPS) / o.RPS.Value()
}

func slow(o Observed) bool { return exceeds(o.P99Milliseconds.Value(), SlowMilliseconds) }

// Recommend returns what the figures of a component recommend: replicas, cpu and memory, in this order. Without CPU use there
// is nothing for replicas and cpu, without memory use nothing for memory. cpu and memory are, as the use that they are worked
// out from, those of all pods together. r are the component's requirements, nil for none.
func Recommend(component string, o Observed, r *v1alpha1.NFRRequirements) []v1alpha1.NFRRecommendation {
	var all []v1alpha1.NFRRecommendation
	add := func(dimension v1alpha1.NFRDimension, target int64, basis string) {
		all = append(all, v1alpha1.NFRRecommendation{
			Component: component, Dimension: dimension, Target: target, Basis: basis, ConfidencePercent: ConfidencePercent,
		})
	}
	if cpu := o.CPUMillicores.Value(); cpu > 0 {
		target := targetRPS(r)
		add(v1alpha1.DimensionReplicas, Replicas(o, target), replicasBasis(o, target))
		add(v1alpha1.DimensionCPU, ceil(cpu*CPUHeadroom), fmt.Sprintf("%s used by all pods, times %g", millicores(cpu), CPUHeadroom))
	}
	if memory := o.MemoryBytes.Value(); memory > 0 {
		add(v1alpha1.DimensionMemory, ceil(memory*MemoryHeadroom),
			fmt.Sprintf("%s bytes used by all pods, times %g", figure(memory), MemoryHeadroom))
	}
	return all
}

func targetRPS(r *v1alpha1.NFRRequirements) int32 {
	return ptr.Deref(ptr.Deref(r, v1alpha1.NFRRequirements{}).MinThroughputRPS, 0)
}

func replicasBasis(o Observed, target int32) string {
	text := fmt.Sprintf("%s used by all pods", millicores(o.CPUMillicores.Value()))
	switch {
	case target <= 0:
	case scale(o, target) == 1 && o.RPS.Value() < IdleRPS:
		text += fmt.Sprintf(", too few requests to scale it to %d a second", target)
	default:
		text += fmt.Sprintf(" for %s requests a second, scaled to %d", figure(o.RPS.Value()), target)
	}
	text += fmt.Sprintf(", %dm for a replica", CPUPerReplica)
	if slow(o) {
		text += fmt.Sprintf(", 1 more for a p99 of %s ms, above %d", figure(o.P99Milliseconds.Value()), SlowMilliseconds)
	}
	return text
}

func millicores(v float64) string { return figure(v) + "m" }

// figure writes a value with three digits after the point, none if it is whole: the status is not to change with the last
// bits of a float.
func figure(v float64) string {
	rounded := math.Round(v*1000) / 1000
	if rounded == math.Trunc(rounded) {
		return fmt.Sprintf("%.0f", rounded)
	}
	return fmt.Sprintf("%.3f", rounded)
}
