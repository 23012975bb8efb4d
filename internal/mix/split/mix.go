// SPDX-License-Identifier: Apache-2.0

// Package split computes how a group of replicas is split between spot and on-demand capacity. It is the only place
// where that is computed: the scheduler, the controller, the command line and the tests all call it.
//
// A mix defines one fixed sequence of slots 0, 1, 2, …, each of one capacity type, such that the first n slots have
// exactly the split for n, for every n. A scale-up therefore never moves a replica, and a scale-down from the highest
// slot stays exact at every step.
package split

import (
	"fmt"
	"math"

	"berth.dev/berth/internal/mix/capacity"
)

// NoMax as Mix.MaxSpot means that the number of spot replicas is not limited.
const NoMax = math.MaxInt32

// MaxBound is the maximum of MinOnDemand and MaxSpot.
const MaxBound = 1_000_000

// Mix is the mix of one group. Create it with New, or set every field: the zero value means "no spot at all".
type Mix struct {
	// SpotPercent is the percentage of replicas that may run on spot, 0 to 100. The result is rounded down: the
	// remainder runs on on-demand.
	SpotPercent int32
	// MinOnDemand is the number of replicas that always run on on-demand, 0 to MaxBound.
	MinOnDemand int32
	// MaxSpot is the maximum number of replicas on spot, 0 to MaxBound, or NoMax.
	MaxSpot int32
}

// New returns the mix of a percentage and a minimum of on-demand replicas, without a maximum of spot replicas.
func New(spotPercent, minOnDemand int32) Mix {
	return Mix{SpotPercent: spotPercent, MinOnDemand: minOnDemand, MaxSpot: NoMax}
}

// Validate returns an error for the first field that is out of its range.
func (m Mix) Validate() error {
	switch {
	case m.SpotPercent < 0 || m.SpotPercent > 100:
		return fmt.Errorf("spotPercent: %d is not between 0 and 100", m.SpotPercent)
	case m.MinOnDemand < 0 || m.MinOnDemand > MaxBound:
		return fmt.Errorf("minOnDemand: %d is not between 0 and %d", m.MinOnDemand, MaxBound)
	case m.MaxSpot < 0 || m.MaxSpot > MaxBound && m.MaxSpot != NoMax:
		return fmt.Errorf("maxSpot: %d is not between 0 and %d", m.MaxSpot, MaxBound)
	}
	return nil
}

// String is the human-readable mix: "70% spot, at least 2 on-demand".
func (m Mix) String() string {
	s := fmt.Sprintf("%d%% spot, at least %d on-demand", m.SpotPercent, m.MinOnDemand)
	if m.MaxSpot != NoMax {
		s += fmt.Sprintf(", at most %d spot", m.MaxSpot)
	}
	return s
}

// Spot returns how many of n replicas run on spot: min(floor(n·SpotPercent/100), max(0, n−MinOnDemand), MaxSpot).
func (m Mix) Spot(n int) int {
	if n <= 0 {
		return 0
	}
	return min(n*int(m.SpotPercent)/100, max(0, n-int(m.MinOnDemand)), int(m.MaxSpot))
}

// OnDemand returns how many of n replicas run on on-demand: the rest.
func (m Mix) OnDemand(n int) int {
	return max(n, 0) - m.Spot(n)
}

// TypeOf returns the capacity type of a slot. All three bounds of Spot grow by 0 or 1 per replica, and so does their
// minimum. Therefore every slot has one type, whatever the size of the group.
func (m Mix) TypeOf(slot int) capacity.Type {
	if m.Spot(slot+1) > m.Spot(slot) {
		return capacity.Spot
	}
	return capacity.OnDemand
}

// IsFloor reports whether a slot is one of the first MinOnDemand on-demand slots.
func (m Mix) IsFloor(slot int) bool {
	return m.TypeOf(slot) == capacity.OnDemand && m.OnDemand(slot+1) <= int(m.MinOnDemand)
}

// SlotOf returns the k-th slot (from 0) of a capacity type, and false if the sequence has no such slot.
func (m Mix) SlotOf(t capacity.Type, k int) (int, bool) {
	if t == capacity.Spot {
		return m.spotSlot(k)
	}
	return m.onDemandSlot(k)
}

// spotSlot is the smallest n with Spot(n) = k+1, minus one.
func (m Mix) spotSlot(k int) (int, bool) {
	p := int(m.SpotPercent)
	if p == 0 || k >= int(m.MaxSpot) {
		return 0, false
	}
	byPercent := (100*(k+1) + p - 1) / p
	byFloor := k + 1 + int(m.MinOnDemand)
	return max(byPercent, byFloor) - 1, true
}

// onDemandSlot is the smallest n with OnDemand(n) = k+1, minus one. OnDemand(n) is the greatest of three lower bounds,
// so the first of them that reaches k+1 decides.
func (m Mix) onDemandSlot(k int) (int, bool) {
	n, found := math.MaxInt, false
	if k < int(m.MinOnDemand) {
		n, found = k+1, true
	}
	if p := int(m.SpotPercent); p < 100 {
		n, found = min(n, 100*k/(100-p)+1), true
	}
	if m.MaxSpot != NoMax {
		n, found = min(n, int(m.MaxSpot)+k+1), true
	}
	return n - 1, found
}
