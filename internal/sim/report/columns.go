// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/internal/kube/display"
)

// column is a column of the table of runs.
type column struct {
	head string
	cell func(r *Run) string
	// text is set where the cells are no numbers.
	text bool
}

// columns are those of the table, but for the last one, which depends on all runs.
var columns = []column{
	{"POLICY", func(r *Run) string { return name(r.Policy) }, true},
	{"COST($)", func(r *Run) string { return cost(r.Dollars) }, false},
	{"COST/OPTIMUM", func(r *Run) string { return cost(r.CostOfOptimum) }, false},
	{"SPOT(node-h)", func(r *Run) string { return decimal(r.SpotNodeHours, 1) }, false},
	{"ON-DEMAND(node-h)", func(r *Run) string { return decimal(r.OnDemandNodeHours, 1) }, false},
	{"READY(%)", func(r *Run) string { return share(r.ReadyReplicaMinutes, r.WantedReplicaMinutes) }, false},
	{"BELOW-WANTED(replica-min)", func(r *Run) string { return decimal(r.BelowWantedReplicaMinutes, 1) }, false},
	{"BELOW-FLOOR(replica-min)", func(r *Run) string { return decimal(r.BelowFloorReplicaMinutes, 1) }, false},
	{"OFF-MIX(workload-min)", func(r *Run) string { return decimal(r.OffMixWorkloadMinutes, 1) }, false},
	{"MOVES", func(r *Run) string { return strconv.Itoa(r.Moves) }, false},
	{"INTERRUPTED(nodes)", func(r *Run) string { return strconv.Itoa(r.Interruptions) }, false},
	{"INTERRUPTED(replicas)", func(r *Run) string { return strconv.Itoa(r.InterruptedReplicas) }, false},
	{"LAUNCHED(nodes)", func(r *Run) string { return strconv.Itoa(r.Launched) }, false},
}

const pareto = "PARETO"

// table is the header and the row of each run.
func table(runs []Run) [][]string {
	header := make([]string, 0, len(columns)+1)
	for _, c := range columns {
		header = append(header, c.head)
	}
	rows, front := [][]string{append(header, pareto)}, sets.New(Front(runs)...)
	for i := range runs {
		row := make([]string, 0, len(columns)+1)
		for _, c := range columns {
			row = append(row, c.cell(&runs[i]))
		}
		rows = append(rows, append(row, onFront(&runs[i], front.Has(i))))
	}
	return rows
}

func onFront(r *Run, on bool) string {
	switch {
	case !compared(r):
		return display.Unknown
	case on:
		return "yes"
	}
	return "no"
}

// cost is a number with cents, or unknown.
func cost(dollars *float64) string {
	if dollars == nil {
		return display.Unknown
	}
	return decimal(*dollars, 2)
}

// decimal is a number that is not 0 unless it is.
func decimal(v float64, decimals int) string {
	least := math.Pow10(-decimals)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return display.Unknown
	case v > 0 && v < least/2:
		return "<" + strconv.FormatFloat(least, 'f', decimals, 64)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// share is a part in percent. It is rounded down: 100 means that nothing is missing.
func share(part, of float64) string {
	if !(of > 0) {
		return display.Unknown
	}
	return decimal(math.Floor(part/of*10_000)/100, 2)
}
