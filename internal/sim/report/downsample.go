// SPDX-License-Identifier: Apache-2.0

package report

import "slices"

// Downsample returns at most a number of the samples, in their order: the first and the last one, and of each of equal parts those with
// the fewest and the most Ready replicas, and with the most that are missing in all and on the floor. So a gap stays visible, however
// short it is. The samples themselves are returned, not means.
func Downsample(series []Sample, most int) []Sample {
	if len(series) <= most {
		return series
	}
	parts := max(1, (most-2)/len(extremes))
	chosen := make([]int, 0, most)
	for part := range parts {
		from, to := len(series)*part/parts, len(series)*(part+1)/parts
		var best [len(extremes)]int
		for e, better := range extremes {
			best[e] = from
			for i := from + 1; i < to; i++ {
				if better(&series[i]) > better(&series[best[e]]) {
					best[e] = i
				}
			}
		}
		chosen = append(chosen, best[:]...)
	}
	chosen = append(chosen, 0, len(series)-1)
	slices.Sort(chosen)
	chosen = slices.Compact(chosen)
	kept := make([]Sample, len(chosen))
	for i, at := range chosen {
		kept[i] = series[at]
	}
	return kept
}

// extremes are what is greatest for the samples that are kept.
var extremes = [...]func(s *Sample) int{
	func(s *Sample) int { return -s.Ready() },
	func(s *Sample) int { return s.Ready() },
	func(s *Sample) int { return s.Missing() },
	func(s *Sample) int { return s.BelowFloor },
}
