// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// MixError says how far a group was from its mix while its pods were bound one
// after the other: of all prefixes of the order, the largest and the mean
// |spot − m.Spot(n)|, in pods. Of no pods both are 0.
func MixError(m split.Mix, order []capacity.Type) (most int, mean float64) {
	spot, sum := 0, 0
	for i, t := range order {
		if t == capacity.Spot {
			spot++
		}
		off := spot - m.Spot(i+1)
		off = max(off, -off)
		most, sum = max(most, off), sum+off
	}
	if len(order) == 0 {
		return 0, 0
	}
	return most, float64(sum) / float64(len(order))
}

// Deviation is the standard deviation of a whole population, such as the pods of
// each node; 0 of none.
func Deviation(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	n, mean, squares := float64(len(of)), 0.0, 0.0
	for _, v := range of {
		mean += v / n
	}
	for _, v := range of {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / n)
}
