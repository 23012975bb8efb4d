// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"iter"
	"slices"

	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/policy"
)

// keyset is a list of node labels whose values together name an interruption
// domain. Domains are numbered as they are met. Guarded by Ledger.mu.
type keyset struct {
	index   int
	keys    []string
	numbers map[string]int32
}

func (ks *keyset) number(labels map[string]string) int32 {
	name := capacity.Domain(labels, ks.keys)
	d, known := ks.numbers[name]
	if !known {
		d = int32(len(ks.numbers)) //nolint:gosec // as many as there are distinct label values
		ks.numbers[name] = d
	}
	return d
}

// keysetFor returns the keyset of a list of labels; nil means the configured one.
func (l *Ledger) keysetFor(keys []string) *keyset {
	if keys == nil && len(l.keysets) > 0 {
		return l.keysets[0]
	}
	for _, ks := range l.keysets {
		if slices.Equal(ks.keys, keys) {
			return ks
		}
	}
	ks := &keyset{index: len(l.keysets), keys: slices.Clone(keys), numbers: map[string]int32{}}
	l.keysets = append(l.keysets, ks)
	if ks.index == 0 {
		return ks // the configured one, before there are nodes
	}
	// Nodes are immutable to their readers: each is replaced by one that knows
	// the new keyset as well. This happens once per distinct list of labels.
	for name, n := range l.nodes.byName {
		d := *n.details
		d.domains = append(slices.Clone(n.domains), ks.number(n.labels))
		n.details = &d
		l.nodes.set(name, n)
	}
	return ks
}

// Spread is how the pods of a group are spread, at one moment. Immutable.
type Spread struct {
	keyset  int
	domains []int32
	zones   []int32
	hosts   map[string]int32
}

// Domain returns the number of the group's spot pods in the interruption domain of a node.
func (s *Spread) Domain(n Node) int32 { return at(s.domains, n.in(s.keyset)) }

// Zone returns the number of the group's pods, of both types, in the zone of a node.
func (s *Spread) Zone(n Node) int32 { return at(s.zones, n.zoneNumber) }

// Host returns the number of the group's pods on a node; it must be one of those that the spread was asked for.
func (s *Spread) Host(name string) int32 { return s.hosts[name] }

func at(counts []int32, i int32) int32 {
	if int(i) < len(counts) {
		return counts[i]
	}
	return 0
}

// SpreadOf returns how the pods of a group are spread over domains, zones and
// the nodes of the given names.
func (l *Ledger) SpreadOf(key policy.GroupKey, names iter.Seq[string]) Spread {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		return Spread{}
	}
	d := len(g.domains)
	counts := append(append(make([]int32, 0, d+len(g.zones)), g.domains...), g.zones...)
	s := Spread{keyset: g.keyset.index, domains: counts[:d:d], zones: counts[d:]}
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
	}
	return s
}
