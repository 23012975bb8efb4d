// SPDX-License-Identifier: Apache-2.0

package state

import "time"

const (
	// firstBound is how many bindings are in progress at the same time at first: an API server on two cores makes no more
	// of them a second with more in progress (docs/performance.md).
	firstBound = 64
	// leastBound remains of it while the API server is overloaded.
	leastBound = 8
	// mostBound is below what two connections of HTTP/2 carry at the same time by default.
	mostBound = 192
	// A window has so many bindings for each one that may be in progress, and lasts so long, at least: the rates of shorter
	// ones differ by chance.
	windowTurns = 4
	windowTime  = 500 * time.Millisecond
	// better is how much faster a larger bound has to be, or it was chance.
	better = 1.15
	// pauseWindows pass after a larger bound was of no use before it is tried again.
	pauseWindows = 20
)

// window is what was seen while one bound was in force.
type window struct {
	// done are the bindings that were answered, and overloaded those of them that the API server had no capacity for.
	done, overloaded int
	took             time.Duration
	// full is set if a scheduling cycle or a binding waited for the bound.
	full bool
}

// over reports whether a window has enough bindings for a decision.
func (w window) over(bound int) bool {
	return w.overloaded > bound/2 || w.done >= windowTurns*bound && w.took >= windowTime
}

func (w window) rate() float64 { return float64(w.done) / w.took.Seconds() }

// bound is how many bindings may be in progress. It grows while that makes bindings faster, goes back when it does not,
// and is halved when the API server is overloaded.
type bound struct {
	now int
	// before and rate are the bound before it grew, and how many bindings a second it allowed; 0 if it did not grow.
	before int
	rate   float64
	pause  int
}

// next is the bound after a window.
func (b bound) next(w window) bound {
	switch {
	case w.overloaded > w.done/100:
		return bound{now: max(leastBound, b.now/2), pause: pauseWindows}
	case !w.full:
		return bound{now: b.now, pause: b.pause} // it was not the bound that mattered
	case b.before > 0 && w.rate() < better*b.rate:
		return bound{now: b.before, pause: pauseWindows}
	case b.before == 0 && b.pause > 0:
		return bound{now: b.now, pause: b.pause - 1}
	case b.now == mostBound:
		return bound{now: b.now, pause: pauseWindows}
	}
	return bound{now: min(mostBound, b.now*3/2), before: b.now, rate: w.rate()}
}
