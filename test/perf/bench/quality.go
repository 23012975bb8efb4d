// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// MixError is how far a group was from its mix while its pods were bound one
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

// Median of a list; of an even number, the mean of the two in the middle. NaN of none.
func Median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	of = slices.Sorted(slices.Values(of))
	m := len(of) / 2
	if len(of)%2 == 1 {
		return of[m]
	}
	return (of[m-1] + of[m]) / 2
}

// Quantile returns the value below which a share q of the list lies, by the nearest rank. NaN of none.
func Quantile(of []float64, q float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	of = slices.Sorted(slices.Values(of))
	return of[max(0, int(math.Ceil(q*float64(len(of))))-1)]
}

// Of returns what a peer measured in each round, of those that measured it.
func (r *Result) Of(peer, metric string) (list []float64) {
	for _, round := range r.Rounds {
		if v, ok := round.Peers[peer][metric]; ok {
			list = append(list, v)
		}
	}
	return list
}

// Median returns the median over the rounds, NaN if it was not measured.
func (r *Result) Median(peer, metric string) float64 { return Median(r.Of(peer, metric)) }

// Ratio is the median of the ratios of one peer to another within each round,
// so that a slow round does not count for one of them only.
func (r *Result) Ratio(peer, against, metric string) float64 {
	return Median(r.Ratios(peer, against, metric))
}

// Ratios are the ratios of one peer to another within each round.
func (r *Result) Ratios(peer, against, metric string) (list []float64) {
	for _, round := range r.Rounds {
		a, measured := round.Peers[peer][metric]
		b, against := round.Peers[against][metric]
		if measured && against && b != 0 {
			list = append(list, a/b)
		}
	}
	return list
}

// Peers are the names of those that took part, sorted.
func (r *Result) Peers() (names []string) {
	for _, round := range r.Rounds {
		for name := range round.Peers {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
