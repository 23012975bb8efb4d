// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"iter"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

// keyset is a list of node labels whose values together name a domain. The
// domains that nodes are in have small numbers, by which pods are counted; the
// number of a domain that its last node left goes to the next new one. Guarded
// by Ledger.mu.
type keyset struct {
	keys    []string
	numbers map[string]int32
	domains []domain // by number
	free    []int32
}

// domain is where a number of nodes, or of pods, are.
type domain struct {
	name  string
	count int32
}

func newKeyset(keys ...string) keyset {
	return keyset{keys: slices.Clone(keys), numbers: map[string]int32{}}
}

// enter returns the number of the domain of a node, which is in it from now on.
func (ks *keyset) enter(labels map[string]string) int32 {
	var buffer [64]byte
	name := capacity.AppendDomain(buffer[:0], labels, ks.keys)
	number, known := ks.numbers[string(name)]
	if !known {
		if last := len(ks.free) - 1; last >= 0 {
			number, ks.free = ks.free[last], ks.free[:last]
		} else {
			number = int32(len(ks.domains)) //nolint:gosec // there are not that many nodes
			ks.domains = append(ks.domains, domain{})
		}
		ks.domains[number].name = string(name)
		ks.numbers[ks.domains[number].name] = number
	}
	ks.domains[number].count++
	return number
}

// leave takes a node from its domain.
func (ks *keyset) leave(number int32) {
	d := &ks.domains[number]
	if d.count--; d.count == 0 {
		delete(ks.numbers, d.name)
		d.name = ""
		ks.free = append(ks.free, number)
	}
}

// ownDomains counts the spot pods of one group by labels that its mix names. It
// has no entry for a domain without pods, so the lists of a tenant cost memory for
// the pods of the tenant only, and none for nodes or other groups.
type ownDomains struct {
	keys   []string
	byName map[string]*domain
	of     map[*record]*domain
}

func (o *ownDomains) add(r *record, labels map[string]string) {
	d := o.at(labels)
	if d == nil {
		d = &domain{name: capacity.Domain(labels, o.keys)}
		o.byName[d.name] = d
	}
	d.count++
	o.of[r] = d
}

func (o *ownDomains) remove(r *record) {
	d := o.of[r]
	if d == nil {
		return
	}
	delete(o.of, r)
	if d.count--; d.count == 0 {
		delete(o.byName, d.name)
	}
}

// at returns the domain of a node, nil if no pod is in it.
func (o *ownDomains) at(labels map[string]string) *domain {
	var buffer [64]byte
	return o.byName[string(capacity.AppendDomain(buffer[:0], labels, o.keys))]
}

// spread has the pods of a group counted by a list of labels; an empty one means
// those that are configured.
func (l *Ledger) spread(g *group, keys []string) {
	if len(keys) == 0 {
		keys = l.domains.keys
	}
	counted := l.domains.keys
	if g.own != nil {
		counted = g.own.keys
	}
	if slices.Equal(keys, counted) {
		return
	}
	for _, r := range g.members {
		r.uncount()
	}
	g.domains, g.own = nil, nil
	if !slices.Equal(keys, l.domains.keys) {
		g.own = &ownDomains{keys: slices.Clone(keys), byName: map[string]*domain{}, of: map[*record]*domain{}}
	}
	for _, r := range g.members {
		l.place(r, r.node)
	}
}

// Spread is how the pods of a group are spread, at one moment. Immutable.
type Spread struct {
	domains []int32
	zones   []int32
	hosts   map[string]int32
	// own has, by node, the spot pods in its domain, for a group that names labels of its own.
	own map[string]int32
}

// Domain returns the number of the group's spot pods in the interruption domain
// of a node, which must be one of those that the spread was requested.
func (s *Spread) Domain(n Node) int32 {
	if s.own != nil && n.details != nil {
		return s.own[n.name]
	}
	return at(s.domains, n.domain)
}

// Zone returns the number of the group's pods, of both types, in the zone of a node.
func (s *Spread) Zone(n Node) int32 { return at(s.zones, n.zoneNumber) }

// Host returns the number of the group's pods on a node; it must be one of those that the spread was requested.
func (s *Spread) Host(name string) int32 { return s.hosts[name] }

func at(counts []int32, i int32) int32 {
	if int(i) < len(counts) {
		return counts[i]
	}
	return 0
}

// SpreadOf returns how the pods of a group are spread over domains, zones and
// the nodes of the given names.
func (l *Ledger) SpreadOf(key governing.GroupKey, names iter.Seq[string]) Spread {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		return Spread{}
	}
	d := len(g.domains)
	counts := append(append(make([]int32, 0, d+len(g.zones)), g.domains...), g.zones...)
	s := Spread{domains: counts[:d:d], zones: counts[d:]}
	if len(g.hosts) == 0 {
		return s
	}
	for name := range names {
		if n := g.hosts[name]; n > 0 {
			if s.hosts == nil {
				s.hosts = map[string]int32{}
			}
			s.hosts[name] = n
		}
		if g.own != nil {
			l.spreadAt(&s, g, name)
		}
	}
	return s
}

// spreadAt adds the domain of a node to the spread of a group that has its own.
func (l *Ledger) spreadAt(s *Spread, g *group, name string) {
	n, known := l.nodes.byName[name]
	if !known {
		return
	}
	if d := g.own.at(n.labels); d != nil {
		if s.own == nil {
			s.own = map[string]int32{}
		}
		s.own[name] = d.count
	}
}
