// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"k8s.io/component-base/metrics/testutil"
)

// bucket is one of a histogram, over all its labels.
type bucket struct{ edge, count float64 }

// quantile estimates one of a histogram in Prometheus' text format, as PromQL
// does: evenly within the bucket that it lies in. NaN if nothing was observed.
func quantile(text []byte, histogram string, q float64) float64 {
	samples := testutil.NewMetrics()
	if err := testutil.ParseMetrics(string(text), &samples); err != nil {
		return math.NaN()
	}
	counts := map[float64]float64{}
	for _, s := range samples[histogram+"_bucket"] {
		edge, err := strconv.ParseFloat(string(s.Metric["le"]), 64)
		if err != nil {
			return math.NaN()
		}
		counts[edge] += float64(s.Value)
	}
	buckets := make([]bucket, 0, len(counts))
	for edge, n := range counts {
		buckets = append(buckets, bucket{edge, n})
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.edge, b.edge) })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return math.NaN()
	}
	rank := q * buckets[len(buckets)-1].count
	below := bucket{}
	for _, b := range buckets {
		if b.count >= rank {
			if math.IsInf(b.edge, 1) {
				return below.edge
			}
			return below.edge + (b.edge-below.edge)*(rank-below.count)/(b.count-below.count)
		}
		below = b
	}
	return below.edge
}
