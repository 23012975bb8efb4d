// SPDX-License-Identifier: Apache-2.0

package nfr

import "math"

// Figure is a measured value, or none. The zero value is none.
type Figure struct {
	value float64
	known bool
}

// Known returns a figure that was measured. What is no finite number is none, and nothing measured here is below 0.
func Known(value float64) Figure {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return Figure{}
	}
	return Figure{value: math.Max(0, value), known: true}
}

// Known reports whether it was measured.
func (f Figure) Known() bool { return f.known }

// Value returns the value, 0 if it was not measured.
func (f Figure) Value() float64 { return f.value }

// Observed is what was measured of one component.
type Observed struct {
	// RPS is in requests a second.
	RPS Figure
	// P99Milliseconds is the latency at the 99th percentile.
	P99Milliseconds Figure
	// CPUMillicores and MemoryBytes are the use of all pods together.
	CPUMillicores, MemoryBytes Figure
}

// rounding is what unassigned-point arithmetic may be off by, relative to the value. Without it 500 millicores that Prometheus
// makes 500.0000000000001 of would be two replicas.
const rounding = 1e-10

// exceeds reports whether a value is above a bound by more than rounding.
func exceeds(value, bound float64) bool { return value > bound*(1+rounding) }

// ceil rounds up to a whole number, from 0 to the largest int64.
func ceil(value float64) int64 {
	up := math.Ceil(value * (1 - rounding))
	switch {
	case math.IsNaN(up) || up <= 0:
		return 0
	case up >= math.MaxInt64:
		return math.MaxInt64
	}
	return int64(up)
}
