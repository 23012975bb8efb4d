// SPDX-License-Identifier: Apache-2.0

// Package interruptions decides which interruption domains are in quarantine, by the spot nodes that providers reclaimed there.
package interruptions

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// HalfLife is the time after which an interruption counts half.
	HalfLife = time.Hour
	// one is what an interruption counts when it happens.
	one = 1000
	// forgotten is the count below which a domain without a quarantine is dropped.
	forgotten = one / 20
	// MaxDomains bounds the domains of a table, and maxNodes the nodes that were counted.
	MaxDomains, maxNodes = 100, 3000
	// maxMemory is how long a node that was counted does not count again. A machine that its provider stops may come back with the
	// same Node.
	maxMemory = 4 * time.Hour
	// maxCount bounds a count.
	maxCount = 1_000_000 * one
	// MaxQuarantine bounds what may be configured as the longest quarantine.
	MaxQuarantine = 24 * time.Hour
)

// Settings define when a domain is in quarantine, and for how long.
type Settings struct {
	// SharePercent is the share of the spot nodes of a domain whose interruptions start a quarantine.
	SharePercent int32
	// Quarantine is how long the quarantine lasts if no more nodes were interrupted than that: 0 for never. It is in proportion to
	// the interruptions, and at most Longest.
	Quarantine, Longest time.Duration
}

// Interruption is a spot node that its provider reclaims.
type Interruption struct {
	// Node identifies the node: each counts once.
	Node string
	// Domain is its interruption domain, and Staying the number of spot nodes there that do not depart.
	Domain  string
	Staying int
}

// counted is a node that was counted.
type counted struct {
	node string
	at   time.Time
}

// Domain is what is remembered of an interruption domain.
type Domain struct {
	Name string
	// count is the decayed number of interruptions, in thousandths, at the time of the last one.
	count int64
	last  time.Time
	// Until is the end of its quarantine, zero if it had none.
	Until time.Time
}

// Identified reports whether a domain, as capacity.Domain returns it, has a value of any key: nodes without values share nothing.
func Identified(domain string) bool { return strings.Trim(domain, "?/") != "" }

// Thousandths is the decayed number of interruptions, in thousandths.
func (d *Domain) Thousandths(now time.Time) int64 { return decayed(d.count, now.Sub(d.last)) }

// Quarantined reports whether the domain is in quarantine.
func (d *Domain) Quarantined(now time.Time) bool { return now.Before(d.Until) }

// Table is what is remembered of all domains, and of the nodes that were counted. It is replaced rather than changed.
type Table struct {
	// Keys are the node labels whose values identify a domain.
	Keys    []string
	Domains []Domain
	nodes   []counted
}

// Has reports whether a node was counted, and not hours before a time.
func (t *Table) Has(node string, at time.Time) bool {
	return slices.ContainsFunc(t.nodes, func(c counted) bool { return c.node == node && at.Sub(c.at) < maxMemory })
}

// Find returns what is remembered of a domain, nil if nothing is.
func (t *Table) Find(domain string) *Domain {
	i := slices.IndexFunc(t.Domains, func(d Domain) bool { return d.Name == domain })
	if i < 0 {
		return nil
	}
	return &t.Domains[i]
}

// Observe counts an interruption of some time, which may be past, and returns false if the node was counted before.
func (t *Table) Observe(in Interruption, at time.Time, s Settings) (next Table, is bool) {
	if t.Has(in.Node, at) {
		return *t, false
	}
	next = Table{Keys: t.Keys, Domains: slices.Clone(t.Domains), nodes: append(slices.Clone(t.nodes), counted{in.Node, at})}
	next.nodes = slices.DeleteFunc(next.nodes, func(c counted) bool { return at.Sub(c.at) >= maxMemory })
	next.nodes = next.nodes[max(0, len(next.nodes)-maxNodes):]
	d := next.Find(in.Domain)
	if d == nil {
		next.Domains = append(next.Domains, Domain{Name: in.Domain})
		d = &next.Domains[len(next.Domains)-1]
	}
	now := at // or later: what another leader counted may have happened since
	if now.Before(d.last) {
		now = d.last
	}
	d.count, d.last = min(d.Thousandths(now)+decayed(one, now.Sub(at)), maxCount), now
	if until := now.Add(quarantine(d.count, in.Staying, s)); until.After(now) && until.After(d.Until) {
		d.Until = until
	}
	next.prune(now)
	return next, true
}

// Limit ends quarantines when they end at the latest by the settings, and returns false if that changes nothing.
func (t *Table) Limit(now time.Time, s Settings) (next Table, changed bool) {
	latest := now.Add(s.Longest)
	if s.Quarantine == 0 {
		latest = time.Time{}
	}
	next = Table{Keys: t.Keys, Domains: slices.Clone(t.Domains), nodes: t.nodes}
	for i := range next.Domains {
		if d := &next.Domains[i]; d.Until.After(latest) {
			d.Until, changed = latest, true
		}
	}
	return next, changed
}

// quarantine is how long a domain is in quarantine for a number of interruptions, in thousandths, 0 for not at all.
//
// The share is of the nodes that are there and those that were interrupted. A single interruption is enough in a domain of
// few nodes, where it is a large share.
func quarantine(count int64, staying int, s Settings) time.Duration {
	nodes := min(int64(max(staying, 0))*one, maxCount) + count
	threshold := max(one, nodes*int64(s.SharePercent)/100)
	if count < threshold {
		return 0
	}
	// In steps of a second and with a bound, so that no product is too large.
	times := min(count/threshold, int64(MaxQuarantine/time.Second))
	rest := count % threshold
	length := time.Duration(times)*s.Quarantine + s.Quarantine/one*time.Duration(rest*one/threshold)
	return min(length, s.Longest)
}

// decayed is what remains of a count: half after each half-life, and in between in proportion to the time.
func decayed(count int64, age time.Duration) int64 {
	if age <= 0 {
		return count
	}
	halves := int64(age / HalfLife)
	if halves > 40 {
		return 0
	}
	count >>= halves
	return count - count*int64(age%HalfLife/time.Second)/int64(2*HalfLife/time.Second)
}

// prune drops the domains that no longer count, and the least interesting ones of too many.
func (t *Table) prune(now time.Time) {
	t.Domains = slices.DeleteFunc(t.Domains, func(d Domain) bool { return !d.Quarantined(now) && d.Thousandths(now) < forgotten })
	t.sort(now)
	t.Domains = t.Domains[:min(len(t.Domains), MaxDomains)]
}

// sort puts first the domains that are in quarantine for longest, and then those with the most interruptions.
func (t *Table) sort(now time.Time) {
	ends := func(d *Domain) time.Time {
		if !d.Quarantined(now) {
			return time.Time{}
		}
		return d.Until
	}
	slices.SortStableFunc(t.Domains, func(a, b Domain) int {
		return cmp.Or(ends(&b).Compare(ends(&a)), cmp.Compare(b.Thousandths(now), a.Thousandths(now)), cmp.Compare(a.Name, b.Name))
	})
}

// Quarantined returns the domains that are in quarantine, with the ends of their quarantines, and when that changes without another
// interruption, zero for never.
func (t *Table) Quarantined(now time.Time) (until map[string]time.Time, next time.Time) {
	for i := range t.Domains {
		d := &t.Domains[i]
		if !d.Quarantined(now) {
			continue
		}
		if until == nil {
			until = map[string]time.Time{}
		}
		until[d.Name] = d.Until
		if next.IsZero() || d.Until.Before(next) {
			next = d.Until
		}
	}
	return until, next
}
