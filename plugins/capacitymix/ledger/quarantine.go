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
// domain. What Score reads of a node includes it, so that a quarantine costs no look-up for each node.
func (l *Ledger) Quarantine(until map[string]time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.until()
	if maps.Equal(until, before) {
		return
	}
	if !sameDomains(until, before) {
		l.quarantineNodes(until)
	}
	var next *interruptions.Quarantine
	if len(until) > 0 {
		next = &interruptions.Quarantine{Keys: l.domains.keys, Until: until}
	}
	l.quarantine.Store(next)
	if !sameDomains(until, before) {
		l.quarantineChanges.Add(1)
	}
}

// sameDomains reports whether two quarantines are of the same domains, which refuse the same nodes until other times.
func sameDomains(a, b map[string]time.Time) bool {
	return maps.EqualFunc(a, b, func(time.Time, time.Time) bool { return true })
}

// quarantineNodes has the nodes of some domains avoided, and those of no others. Under Ledger.mu.
func (l *Ledger) quarantineNodes(until map[string]time.Time) {
	for _, name := range slices.Sorted(maps.Keys(l.nodes.byName)) { // samples have the order in which nodes enter a side
		n := l.nodes.byName[name]
		is := l.among(until, n)
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

// QuarantineChanges counts the changes after which a pod that the domains in quarantine refused may find another answer: other domains are
// in quarantine, or a node outside of these is lost, which may have been the last one that the pod could use. It takes no lock. What is
// read after it is not older.
func (l *Ledger) QuarantineChanges() uint64 { return l.quarantineChanges.Load() }

// lost counts the loss of a node outside of quarantine. Under Ledger.mu.
func (l *Ledger) lost(old, n Node) {
	if l.InQuarantine() != nil && old.OutsideQuarantine() && (!n.OutsideQuarantine() || !maps.Equal(old.labels, n.labels)) {
		l.quarantineChanges.Add(1)
	}
}

// InQuarantine returns the domains in quarantine, nil for none. It takes no lock.
func (l *Ledger) InQuarantine() *interruptions.Quarantine { return l.quarantine.Load() }

// until are the domains in quarantine.
func (l *Ledger) until() map[string]time.Time {
	if q := l.quarantine.Load(); q != nil {
		return q.Until
	}
	return nil
}

// among reports whether a node, whose domain has its number, is a spot node of one of some domains. Under Ledger.mu.
func (l *Ledger) among(domains map[string]time.Time, n Node) bool {
	if n.Type != capacity.Spot {
		return false
	}
	_, is := domains[l.domains.domains[n.domain].name]
	return is
}

// side is where a node is sampled, if it takes pods. Under Ledger.mu.
func (l *Ledger) side(n Node) *side {
	if n.Quarantined {
		return &l.avoided
	}
	return &l.sides[n.Type]
}
