// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"math"

	"berth.dev/berth/internal/mix/savings"
)

// Money is what the pods of a workload cost, in dollars an hour.
type Money struct {
	// Priced is how many pods have a price. The others are in no amount.
	Priced int
	// Saved is what the pods on spot nodes save now, and Available what the others would save there.
	Saved, Available float64
}

// saving is what a number of pods of all on spot nodes saves against where the pods run now, in dollars a month. It is negative where more
// run on spot nodes now.
func (m *Money) saving(spot, all int) *float64 {
	if m.Priced == 0 || all == 0 {
		return nil
	}
	dollars := ((m.Saved+m.Available)*float64(spot)/float64(all) - m.Saved) * savings.HoursPerMonth
	return new(math.Round(dollars*100)/100 + 0) // no negative zero
}
