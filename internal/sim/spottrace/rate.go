// SPDX-License-Identifier: Apache-2.0

package spottrace

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// Month is the time that monthly percentages are of: 730 hours, as for prices.
const Month = 730 * time.Hour

// Never is the time until an interruption that does not come.
const Never = time.Duration(math.MaxInt64)

// Hazard is how often a node is interrupted: the expected number of interruptions in an hour. It is the same at any age of the node, and
// nodes are interrupted independently of each other.
type Hazard float64

// Rate returns the hazard of nodes of which a percentage is interrupted within their first month, from 0 to less than 100.
func Rate(monthlyPercent float64) Hazard {
	return Hazard(-math.Log1p(-monthlyPercent/100) / Month.Hours())
}

// Probability is that of an interruption within a time.
func (h Hazard) Probability(within time.Duration) float64 {
	return -math.Expm1(-float64(h) * within.Hours())
}

// Until draws the time until a node is interrupted.
func (h Hazard) Until(random *rand.Rand) time.Duration {
	draw := random.ExpFloat64() // also where it has no effect: other draws do not depend on the hazard
	hours := draw / float64(h)
	if h <= 0 || hours >= Never.Hours() {
		return Never
	}
	return time.Duration(hours * float64(time.Hour))
}

// Random returns the source of the draws of one name, such as a node pool: what is drawn for another name has no effect on it.
func Random(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))                  // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // the same seed gives the same figures
}
