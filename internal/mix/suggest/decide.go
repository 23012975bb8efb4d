// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"math"

	"berth.dev/berth/internal/mix/split"
)

const (
	// most is the highest spotPercent that is suggested.
	most = 80
	// fewReplicas is how many replicas a workload has of which each counts: a replacement is created first.
	fewReplicas = 3
)

// found is a finding with its reason and how it bounds the mix.
type found struct {
	Finding
	reason *Reason
	bounds bounds
}

// bounds limit a mix. The zero value limits nothing.
type bounds struct {
	percent, minOnDemand int32
	maxSpot              *int32
}

// look returns all findings about a workload, in the order of the reasons: those that block first.
func look(w *Workload) (all []*found) {
	for _, check := range checks {
		if f := check(w); f != nil {
			if f.reason.Percent > 0 {
				f.bounds.percent = f.reason.Percent
			}
			all = append(all, f)
		}
	}
	return all
}

// mixOf is the mix within all bounds, nil if a finding blocks it.
func mixOf(w *Workload, all []*found) *Mix {
	m := &Mix{SpotPercent: most, MinOnDemand: 1}
	slow := false
	for _, f := range all {
		if f.Effect == Blocks {
			return nil
		}
		if p := f.bounds.percent; p > 0 {
			m.SpotPercent = min(m.SpotPercent, p)
		}
		m.MinOnDemand = max(m.MinOnDemand, f.bounds.minOnDemand)
		if f.bounds.maxSpot != nil {
			m.MaxSpot = f.bounds.maxSpot
		}
		slow = slow || f.reason == ReasonSlowStart || f.reason == ReasonVerySlowStart
	}
	if w.Releasable && (slow || w.Replicas <= fewReplicas) {
		m.Strategy = "SurgeOrEvict"
	}
	return m
}

// tooFew is the finding about a mix that has no spot replica of a workload, with the number of replicas that would have one.
func tooFew(w *Workload, m *Mix) *found {
	f := ReasonTooFewReplicas.because(w, "of %d replicas, %d%% with at least %d on on-demand nodes are none for spot nodes",
		w.Replicas, m.SpotPercent, m.MinOnDemand)
	if slot, ok := m.Split().SlotOf(spotType, 0); ok {
		f.Change = fmt.Sprintf("run at least %d", slot+1)
	}
	return f
}

// bound32 is a number of replicas that a mix can have.
func bound32(n int) int32 { return int32(max(0, min(n, split.MaxBound, math.MaxInt32))) }
