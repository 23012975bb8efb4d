// SPDX-License-Identifier: Apache-2.0

// Package trend measures whether what a long run samples, such as memory, grows.
package trend

import "time"

// Sample is a value at a time.
type Sample struct {
	At    time.Time
	Value float64
}

// Growth returns how much the values grow during the last half of the samples' time, as a share of their mean there: 0.1 is a tenth. It is
// the slope of the line with the least squares, so that single peaks count little. ok is false where there are fewer than least samples.
func Growth(samples []Sample, least int) (growth float64, ok bool) {
	if len(samples) == 0 {
		return 0, false
	}
	first, last := samples[0].At, samples[len(samples)-1].At
	middle := first.Add(last.Sub(first) / 2)
	var n, sumX, sumY, sumXX, sumXY float64
	for _, s := range samples {
		if s.At.Before(middle) {
			continue
		}
		x := s.At.Sub(middle).Seconds()
		n, sumX, sumY, sumXX, sumXY = n+1, sumX+x, sumY+s.Value, sumXX+x*x, sumXY+x*s.Value
	}
	spread := n*sumXX - sumX*sumX
	if n < float64(least) || spread == 0 || sumY == 0 {
		return 0, false
	}
	slope := (n*sumXY - sumX*sumY) / spread
	return slope * last.Sub(middle).Seconds() / (sumY / n), true
}
