// SPDX-License-Identifier: Apache-2.0

package suggest

import "fmt"

// Budget is a PodDisruptionBudget that selects the pods of a workload.
type Budget struct {
	Name string
	// MinAvailable and MaxUnavailable are the fields of its spec.
	MinAvailable, MaxUnavailable Amount
	// Workloads is how many workloads it selects pods of, and Pods how many pods, those of this workload included.
	Workloads, Pods int
}

// Amount is a number of pods, or a percentage of all. The zero value is unset.
type Amount struct {
	Set, Percent bool
	Value        int
}

// String is the amount as a manifest has it.
func (a Amount) String() string {
	if a.Percent {
		return fmt.Sprintf("%d%%", a.Value)
	}
	return fmt.Sprint(a.Value)
}

// field is the field of the budget that bounds disruptions, and its value.
func (b *Budget) field() (name string, value Amount) {
	if b.MaxUnavailable.Set {
		return "maxUnavailable", b.MaxUnavailable
	}
	return "minAvailable", b.MinAvailable
}

// bounds are those of a mix that has no more pods on spot nodes than the budget allows to be missing. A percentage is one of the mix, and
// so holds at any number of replicas. ok is false if no replica may be on a spot node.
//
// What several workloads share is divided: each of them may lose its part at the same time.
func (b *Budget) bounds(w *Workload) (limits bounds, ok bool) {
	shares, unit := max(1, b.Workloads), max(1, w.Unit)
	most := func(pods int) bounds {
		n := bound32(pods / shares / unit)
		return bounds{maxSpot: &n}
	}
	switch name, a := b.field(); {
	case !a.Set:
		return bounds{}, true
	case a.Percent && name == "maxUnavailable":
		return bounds{percent: int32(min(a.Value, 100))}, a.Value > 0 //nolint:gosec // at most 100
	case a.Percent:
		return bounds{percent: int32(max(0, 100-a.Value))}, a.Value < 100 //nolint:gosec // at most 100
	case name == "maxUnavailable":
		limits = most(a.Value)
		return limits, *limits.maxSpot > 0
	case shares > 1:
		limits = most(max(0, b.Pods-a.Value))
		return limits, *limits.maxSpot > 0
	default:
		least := (a.Value + unit - 1) / unit
		return bounds{minOnDemand: bound32(least)}, least < w.Replicas
	}
}
