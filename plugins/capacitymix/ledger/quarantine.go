// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/interruptions"
)

// Quarantine has the spot nodes of some interruption domains avoided until some times, by the configured labels, and those of no other
// domain. What Score reads of a node includes it, so that a quarantine costs no look-up for each node. It reports whether that is a
// change.
func (l *Ledger) Quarantine(until map[string]time.Time) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if maps.Equal(until, l.until()) {
		return false
	}
	var next *interruptions.Quarantine
	if len(until) > 0 {
		next = &interruptions.Quarantine{Keys: l.domains.keys, Until: until}
	}
	l.quarantine.Store(next)
	for _, name := range slices.Sorted(maps.Keys(l.nodes.byName)) { // samples have the order in which nodes enter a side
		n := l.nodes.byName[name]
		is := l.inQuarantine(n)
		if is == n.Quarantined {
			continue
		}
		l.side(n).remove(n)
		if n.Quarantined = is; n.accepting {
			l.side(n).add(n)
		}
		l.nodes.set(name, n)
	}
	return true
}

// InQuarantine returns the domains in quarantine, nil for none. It is another value after each change, and takes no lock.
func (l *Ledger) InQuarantine() *interruptions.Quarantine { return l.quarantine.Load() }

// until are the domains in quarantine.
func (l *Ledger) until() map[string]time.Time {
	if q := l.quarantine.Load(); q != nil {
		return q.Until
	}
	return nil
}

// inQuarantine reports whether a node, whose domain has its number, is to be avoided. Under Ledger.mu.
func (l *Ledger) inQuarantine(n Node) bool {
	if n.Type != capacity.Spot {
		return false
	}
	_, is := l.until()[l.domains.domains[n.domain].name]
	return is
}

// side is where a node is sampled, if it takes pods. Under Ledger.mu.
func (l *Ledger) side(n Node) *side {
	if n.Quarantined {
		return &l.avoided
	}
	return &l.sides[n.Type]
}
