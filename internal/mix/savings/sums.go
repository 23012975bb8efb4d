// SPDX-License-Identifier: Apache-2.0

package savings

import (
	"time"

	"berth.dev/berth/internal/mix/prices"
)

// Sums are the figures of pods, apart by how certain their prices are.
type Sums struct {
	// Estimated has the pods of which a price is an estimate, Current the others that have a price.
	Current, Estimated Figures
	// Unpriced is how many pods have no price.
	Unpriced int
}

// Meter adds up what pods save at one moment, one pod after the other. It looks up each node once.
type Meter struct {
	meter
	now time.Time
}

// NewMeter returns a meter. It looks up nodes by their name.
func NewMeter(book *prices.Book, find func(name string) (Node, bool), now time.Time) *Meter {
	return &Meter{newMeter(book, find), now}
}

// Add adds a pod of a replica, of which the pods are not read.
func (m *Meter) Add(s *Sums, p *Pod, r *Replica) {
	part, n, why := m.part(p)
	if why == "" && !n.Reserved {
		why = m.price(n)
	}
	if why != "" {
		s.Unpriced++
		return
	}
	f := &s.Current
	if !n.Reserved && n.estimate(m.now) {
		f = &s.Estimated
	}
	f.Pods++
	n.add(f, p, part, r)
}

// estimate reports whether one of the prices of a node is an estimate.
func (n *node) estimate(now time.Time) bool {
	return n.quote.OnDemand.Source.Estimate(now) || n.quote.Spot.Source.Estimate(now)
}

// Dates are when the oldest price of each kind of source was valid that pods have.
func (m *Meter) Dates() map[prices.Origin]time.Time {
	oldest := map[prices.Origin]time.Time{}
	for _, n := range m.nodes {
		if n == nil || n.priced == 0 {
			continue
		}
		for _, a := range []prices.Amount{n.quote.OnDemand, n.quote.Spot} {
			if date, there := oldest[a.Origin]; !there || a.Source.Date.Before(date) {
				oldest[a.Origin] = a.Source.Date
			}
		}
	}
	return oldest
}
