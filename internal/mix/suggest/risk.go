// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"fmt"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

const spotType = capacity.Spot

// Risk is how much a mix risks, by what is known of the workload.
type Risk string

const (
	// Low means that nothing raises the risk.
	Low Risk = "Low"
	// Medium means that one reason does.
	Medium Risk = "Medium"
	// High means that several do.
	High Risk = "High"
	// Blocked means that no mix is suggested.
	Blocked Risk = "Blocked"
)

// risks are in their order, the lowest first.
var risks = []Risk{Low, Medium, High, Blocked}

// rank orders risks.
func (r Risk) rank() int { return slices.Index(risks, r) }

func riskOf(all []*found) Risk {
	raised := 0
	for _, f := range all {
		if f.reason.Raises {
			raised++
		}
	}
	return risks[min(raised, 2)]
}

// Band is how often the spot nodes of an instance type are interrupted, and how many pods of the workload run on nodes of the type.
type Band struct {
	InstanceType string
	Pods         int
	// Band is 1 for less than 5 % in a month, to 5 for more than 20 %. 0 is unknown.
	Band int
}

// lowest is the least percentage of a band, and width how many percent a band has.
func (b *Band) lowest() int { return (b.Band - 1) * width }

const width, highestBand = 5, 5

// Interruptions are how many to expect in a month, if spot nodes have the instance types of the nodes in use.
type Interruptions struct {
	AtLeast float64 `json:"atLeast"`
	// AtMost is nil where a band has no upper bound.
	AtMost *float64 `json:"atMost"`
}

// String is the range, with two decimals.
func (i *Interruptions) String() string {
	switch {
	case i.AtMost == nil:
		return fmt.Sprintf(">=%.2f", i.AtLeast)
	case i.AtLeast == 0:
		return fmt.Sprintf("<%.2f", *i.AtMost)
	}
	return fmt.Sprintf("%.2f-%.2f", i.AtLeast, *i.AtMost)
}

// interruptionsOf are those of a number of pods on spot nodes, nil where a band is unknown. Each pod counts, as if
// it had a node of its own.
func interruptionsOf(w *Workload, spot int) *Interruptions {
	low, high, pods, open := 0, 0, 0, false
	for i := range w.Bands {
		b := &w.Bands[i]
		if b.Band == 0 {
			return nil
		}
		pods += b.Pods
		low += b.Pods * b.lowest()
		high += b.Pods * (b.lowest() + width)
		open = open || b.Band == highestBand
	}
	if pods == 0 {
		return nil
	}
	share := func(percent int) float64 { return float64(spot) * float64(percent) / float64(pods) / 100 }
	in := &Interruptions{AtLeast: share(low)}
	if !open {
		in.AtMost = new(share(high))
	}
	return in
}
