// SPDX-License-Identifier: Apache-2.0

package ledger

import (
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

// Domains is how many spot pods of a group run in each interruption domain, at
// one moment. Immutable.
type Domains struct {
	keyset int
	counts []int32
	// Most is the highest count.
	Most int32
}

// Count returns the number of the group's spot pods in the domain of a node.
func (d Domains) Count(n Node) int32 {
	if i := n.in(d.keyset); int(i) < len(d.counts) {
		return d.counts[i]
	}
	return 0
}

// DomainsOf returns the spread of a group's spot pods.
func (l *Ledger) DomainsOf(key policy.GroupKey) Domains {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		return Domains{}
	}
	d := Domains{keyset: g.keyset.index, counts: slices.Clone(g.domains)}
	if len(d.counts) > 0 {
		d.Most = slices.Max(d.counts)
	}
	return d
}
