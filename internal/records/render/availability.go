// SPDX-License-Identifier: Apache-2.0

package render

import (
	"math"
)

// Reliability is what is known of the nodes of a cluster.
type Reliability struct {
	// OnDemand is the share of time that a replica on on-demand capacity answers, between 0 and 1.
	OnDemand float64
	// InterruptionsPerHour is how often a spot node is taken back: 0.05 is once in twenty hours.
	InterruptionsPerHour float64
	// RecoveryMinutes is how long it takes until a replica that was on it answers elsewhere.
	RecoveryMinutes float64
}

// DefaultReliability is that of most providers' regions.
var DefaultReliability = Reliability{OnDemand: 0.99, InterruptionsPerHour: 0.05, RecoveryMinutes: 5}

// maxReplicas is the most that an availability requests.
const maxReplicas = 50

// Split is how much of a workload may be on spot capacity.
type Split struct {
	SpotPercent, MinOnDemand int32
}

// SplitFor returns how much may be on spot for a required availability.
//
// The share on spot is as large as the capacity that interruptions take from it,
// on average, is not more than may be missing: spot = (1-target) / (rate per hour
// × hours to recover), 100 % at most. And as many replicas stay on on-demand that
// one of them answers for that share of time although all spot nodes are gone at
// once: (1-onDemand)^n ≤ 1-target. docs/deployment-records.md has a table.
func SplitFor(target float64, r Reliability) Split {
	missing := 1 - target
	lost := math.Min(1, r.InterruptionsPerHour*r.RecoveryMinutes/60)
	s := Split{SpotPercent: 100, MinOnDemand: floor(missing, 1-r.OnDemand)}
	if lost > 0 {
		// A hair more, so that a quotient that is a whole number is not treated as the one below it.
		s.SpotPercent = int32(math.Min(100, math.Floor(100*missing/lost+1e-9)))
	}
	return s
}

// floor is the least n with down^n ≤ missing, from 1 to maxReplicas.
func floor(missing, down float64) int32 {
	n, all := int32(1), down
	for all > missing*(1+1e-9) && n < maxReplicas {
		n++
		all *= down
	}
	return n
}

// ReplicasFor returns the least number of replicas for a required
// availability: the fewest of which a majority answers for that share of time, 50
// at most. Strong consistency needs three, so that a majority is left when one is
// gone; so does nothing else.
func ReplicasFor(target float64, strong bool, r Reliability) int32 {
	least := 1
	if strong {
		least = 3
	}
	for n := least; n < maxReplicas && target < 1; n++ {
		if 1-majority(n, r.OnDemand) <= (1-target)*(1+1e-9) {
			return int32(n)
		}
	}
	return maxReplicas
}

// majority is the probability that more than half of n replicas are up.
func majority(n int, up float64) float64 {
	sum := 0.0
	for k := n/2 + 1; k <= n; k++ {
		sum += choose(n, k) * math.Pow(up, float64(k)) * math.Pow(1-up, float64(n-k))
	}
	return sum
}

func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}
