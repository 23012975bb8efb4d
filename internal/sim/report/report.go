// SPDX-License-Identifier: Apache-2.0

// Package report has the figures of a simulation, and prints them as text, JSON and HTML.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"berth.dev/berth/internal/kube/display"
)

// Result is what a simulation gives.
type Result struct {
	// Scenario is its name.
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	// Seconds is the simulated time.
	Seconds float64 `json:"seconds"`
	// OptimumDollars is the least cost of all wanted replicas with all interruptions known in advance, nil where it is unknown.
	OptimumDollars *float64 `json:"optimumDollars"`
	// Runs are those of the same scenario by different policies.
	Runs []Run `json:"runs"`
	// Notes are what the figures lack, such as the pools without a price, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Run is what a policy gives. Hours and minutes are those of all nodes, replicas or workloads together.
type Run struct {
	Policy      string `json:"policy"`
	Description string `json:"description,omitempty"`
	// Values are those of a sweep, by field.
	Values map[string]string `json:"values,omitempty"`
	// Dollars is the price of all nodes, nil where one is unknown.
	Dollars *float64 `json:"dollars"`
	// CostOfOptimum is the cost in relation to the optimum, nil where one of both is unknown.
	CostOfOptimum     *float64 `json:"costOfOptimum"`
	SpotNodeHours     float64  `json:"spotNodeHours"`
	OnDemandNodeHours float64  `json:"onDemandNodeHours"`
	// WantedReplicaMinutes are those that the workloads request, and ReadyReplicaMinutes those of them with a Ready replica.
	WantedReplicaMinutes float64 `json:"wantedReplicaMinutes"`
	ReadyReplicaMinutes  float64 `json:"readyReplicaMinutes"`
	// BelowWantedReplicaMinutes are those without a Ready replica, and BelowFloorReplicaMinutes those of replicas of minOnDemand without
	// one on an on-demand node.
	BelowWantedReplicaMinutes float64 `json:"belowWantedReplicaMinutes"`
	BelowFloorReplicaMinutes  float64 `json:"belowFloorReplicaMinutes"`
	// OffMixWorkloadMinutes are those in which a workload does not satisfy its mix.
	OffMixWorkloadMinutes float64 `json:"offMixWorkloadMinutes"`
	// Moves are replicas, Interruptions nodes that the provider reclaimed, InterruptedReplicas what ran on them, and Launched nodes.
	Moves               int `json:"moves"`
	Interruptions       int `json:"interruptions"`
	InterruptedReplicas int `json:"interruptedReplicas"`
	Launched            int `json:"launched"`
	// Series are the states over time, in its order.
	Series []Sample `json:"series,omitempty"`
}

// Sample is the state at a time, until the next one.
type Sample struct {
	Seconds float64 `json:"seconds"`
	// Wanted and the others are numbers of replicas, up to BelowFloor, which are those of minOnDemand that are not Ready on on-demand.
	Wanted        int `json:"wanted"`
	ReadySpot     int `json:"readySpot"`
	ReadyOnDemand int `json:"readyOnDemand"`
	Pending       int `json:"pending"`
	BelowFloor    int `json:"belowFloor"`
	SpotNodes     int `json:"spotNodes"`
	OnDemandNodes int `json:"onDemandNodes"`
}

// Ready is the number of Ready replicas.
func (s *Sample) Ready() int { return s.ReadySpot + s.ReadyOnDemand }

// Missing is how many Ready replicas there are less than wanted.
func (s *Sample) Missing() int { return max(0, s.Wanted-s.Ready()) }

// JSON writes all figures: the same result gives the same bytes.
func JSON(w io.Writer, r *Result) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// longestName and longestText bound names and sentences in tables and pictures.
const longestName, longestText = 240, 400

func name(s string) string { return display.Inert(s, longestName) }

func sentence(s string) string { return display.Inert(s, longestText) }

// head is what the figures are of, in a sentence.
func (r *Result) head() string {
	return fmt.Sprintf("Scenario %s, seed %d: %s simulated, %s.", name(r.Scenario), r.Seed, span(r.Seconds), display.Count(len(r.Runs), "run"))
}

// span is a time in words.
func span(seconds float64) string {
	if !(seconds >= 0 && seconds < math.MaxInt32) {
		return display.Unknown
	}
	return duration.HumanDuration(time.Duration(seconds * float64(time.Second)))
}
