// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math"
	"slices"
)

// Front returns the indexes of the runs on the Pareto front, by cost: those for which no other run has at most their cost and at most their
// replica-minutes below the wanted number, and less of one of both. Runs of unknown cost are not on it.
func Front(runs []Run) []int {
	var known []int
	for i := range runs {
		if compared(&runs[i]) {
			known = append(known, i)
		}
	}
	slices.SortStableFunc(known, func(a, b int) int {
		return cmp.Or(cmp.Compare(*runs[a].Dollars, *runs[b].Dollars),
			cmp.Compare(runs[a].BelowWantedReplicaMinutes, runs[b].BelowWantedReplicaMinutes))
	})
	var front []int
	for _, i := range known {
		if len(front) > 0 {
			last := &runs[front[len(front)-1]]
			equal := *last.Dollars == *runs[i].Dollars && last.BelowWantedReplicaMinutes == runs[i].BelowWantedReplicaMinutes
			if runs[i].BelowWantedReplicaMinutes >= last.BelowWantedReplicaMinutes && !equal {
				continue
			}
		}
		front = append(front, i)
	}
	return front
}

// compared reports whether both figures of a run are known.
func compared(r *Run) bool {
	return r.Dollars != nil && finite(*r.Dollars) && finite(r.BelowWantedReplicaMinutes)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
