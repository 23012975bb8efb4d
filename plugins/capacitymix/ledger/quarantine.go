// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

// Quarantine has the spot nodes of some interruption domains avoided, by the configured labels, and those of no other domain. What
// Score reads of a node includes it, so that a quarantine costs no look-up for each node.
func (l *Ledger) Quarantine(domains map[string]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(domains) == 0 && len(l.quarantine) == 0 {
		return
	}
	l.quarantine = domains
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
}

// inQuarantine reports whether a node, whose domain has its number, is to be avoided. Under Ledger.mu.
func (l *Ledger) inQuarantine(n Node) bool {
	if n.Type != capacity.Spot || len(l.quarantine) == 0 {
		return false
	}
	_, is := l.quarantine[l.domains.domains[n.domain].name]
	return is
}

// side is where a node is sampled, if it takes pods. Under Ledger.mu.
func (l *Ledger) side(n Node) *side {
	if n.Quarantined {
		return &l.avoided
	}
	return &l.sides[n.Type]
}
