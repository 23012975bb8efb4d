// SPDX-License-Identifier: Apache-2.0

package rebalance

import "time"

// maxDepartures bounds the memory of a Storm: twice the nodes of the largest cluster that Kubernetes supports. Departures
// beyond it postpone the end of a storm, but are not counted.
const maxDepartures = 10_000

// StormSettings define when departures of spot nodes are a storm. A Window or a Quiet of 0 means never.
type StormSettings struct {
	// SharePercent is the share of spot nodes, 0 to 100 percent, that must be exceeded: 30 means that 3 of 10 is not a storm
	// and 4 of 10 is. 100 can not be exceeded, so it means never.
	SharePercent int32
	// MinNodes is the least number of nodes that makes a storm, whatever their share. In a small group every departure
	// is a large share.
	MinNodes int
	// Window is the time in which departures count together. A departure counts until just before it is this old.
	Window time.Duration
	// Quiet is how long after the last departure that was one of enough to be a storm it is over.
	Quiet time.Duration
}

// Storm finds out when so many spot nodes leave at once that moving replicas is no help: it would add evictions to
// losses, and the capacity that is there is needed for replicas that have lost their node.
//
// A storm begins when the nodes that left within Window are at least MinNodes, more than SharePercent of all spot nodes
// (those that are there and those that left within Window). It begins with a departure, and ends when for Quiet no departure
// was one of so many: the nodes that leave a large cluster now and then hold none open.
//
// A node that reports again and again counts once, and postpones the end of a storm once, unless another one has
// reported meanwhile. So one node that flaps neither makes a storm nor holds one open; several that flap do.
//
// Not safe for concurrent use. It starts with no memory of departures.
type Storm struct {
	settings StormSettings
	left     map[string]time.Time // the latest report of each node that left; pruned to Window
	oldest   time.Time            // no report in left is older; before oldest+Window there is nothing to prune
	newest   time.Time            // when the last node left, but for one that reported again and again
	latest   time.Time            // that of the last departure that was one of enough, zero if none was
	last     string               // which node reported last
	active   bool
}

// NewStorm returns a Storm that has seen no departure.
func NewStorm(settings StormSettings) *Storm {
	return &Storm{settings: settings, left: map[string]time.Time{}}
}

// NodeLeft reports that a spot node began to depart, or that it vanished, at now, and how many spot nodes are there after it.
// Both may be reported of one node; one that departs is not one of those that are there. It returns whether a storm began.
func (s *Storm) NodeLeft(name string, now time.Time, spotNodes int) (began bool) {
	s.end(now)
	s.forget(now)
	s.note(name, now)
	if !s.tooMany(spotNodes) {
		return false
	}
	s.latest = s.newest
	if s.active || s.quiet(now) {
		return false
	}
	s.active = true
	return true
}

// note keeps a departure, unless there are too many of them.
func (s *Storm) note(name string, now time.Time) {
	before, known := s.left[name]
	if (!known || name != s.last) && now.After(s.newest) {
		s.newest = now
	}
	s.last = name
	if known && now.After(before) || !known && len(s.left) < maxDepartures {
		if len(s.left) == 0 || now.Before(s.oldest) {
			s.oldest = now
		}
		s.left[name] = now
	}
}

// Active returns whether there is a storm at now. Until is when it ends if no more nodes leave, the zero time if there is none.
func (s *Storm) Active(now time.Time) (active bool, until time.Time) {
	s.end(now)
	s.forget(now)
	if !s.active {
		return false, time.Time{}
	}
	return true, s.latest.Add(s.settings.Quiet)
}

func (s *Storm) tooMany(spotNodes int) bool {
	left := int64(len(s.left))
	all := int64(spotNodes) + left
	return s.settings.Window > 0 && left >= int64(s.settings.MinNodes) && left*100 > int64(s.settings.SharePercent)*all
}

func (s *Storm) quiet(now time.Time) bool {
	return s.latest.IsZero() || now.Sub(s.latest) >= s.settings.Quiet
}

// end ends a storm that is over. NodeLeft calls it too: a departure after the end is not part of the storm.
func (s *Storm) end(now time.Time) {
	if s.quiet(now) {
		s.active = false
	}
}

// forget drops what no longer counts.
func (s *Storm) forget(now time.Time) {
	if now.Sub(s.oldest) < s.settings.Window {
		return
	}
	s.oldest = now
	for name, t := range s.left {
		if now.Sub(t) >= s.settings.Window {
			delete(s.left, name)
		} else if t.Before(s.oldest) {
			s.oldest = t
		}
	}
}
