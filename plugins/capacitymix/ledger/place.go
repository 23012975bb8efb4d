// SPDX-License-Identifier: Apache-2.0

package ledger

import "berth.dev/berth/internal/mix/capacity"

// place moves a pod to a node, "" for none, and counts it there.
func (l *Ledger) place(r *record, node string) {
	r.uncount()
	if r.node != node {
		l.move(r, node)
	}
	n := l.nodes.byName[node] // of unknown type if it is not known
	if on := l.typeOf(node, r.limited); r.on != on && r.state != claimed {
		r.change(func() { r.on = on })
	}
	r.count(n)
}

// move changes the node of a pod in the indexes.
func (l *Ledger) move(r *record, node string) {
	r.group.onHost(r.node, -1)
	r.group.onHost(node, 1)
	if on := l.onNode[r.node]; on != nil {
		delete(on, r)
		if len(on) == 0 {
			delete(l.onNode, r.node)
		}
	}
	r.node = node
	if node != "" {
		if l.onNode[node] == nil {
			l.onNode[node] = map[*record]struct{}{}
		}
		l.onNode[node][r] = struct{}{}
	}
}

// count counts a pod in the domain, if it is a spot node's, and in the zone of its node.
func (r *record) count(n Node) {
	switch {
	case n.Type != capacity.Spot:
	case r.group.own != nil:
		r.group.own.add(r, n.labels)
	default:
		r.domain = n.domain
		r.group.domains = oneMore(r.group.domains, r.domain)
	}
	if n.details != nil {
		r.zone = n.zoneNumber
		r.group.zones = oneMore(r.group.zones, r.zone)
	}
	r.countAround(n.details)
}

// countAround counts a pod on a node, nil for none or one that is not known, by what its group counts besides.
func (r *record) countAround(node *details) {
	g := r.group
	if g.limits != nil {
		r.opens()
	}
	if node == nil || g.siblings == nil && g.limits == nil {
		return
	}
	r.counted = node
	if g.siblings != nil {
		g.siblings.add(node)
	}
	if g.limits != nil {
		g.limits.add(r.seat.unit(), node.labels)
	}
}

func (r *record) uncountAround() {
	g, node := r.group, r.counted
	r.close()
	if r.counted = nil; node == nil {
		return
	}
	if g.siblings != nil {
		g.siblings.remove(node)
	}
	if g.limits != nil {
		g.limits.remove(r.seat.unit(), node.labels)
	}
}

func (r *record) uncount() {
	if r.group.own != nil {
		r.group.own.remove(r)
	}
	if r.domain != noDomain {
		r.group.domains[r.domain]--
		r.domain = noDomain
	}
	if r.zone != noDomain {
		r.group.zones[r.zone]--
		r.zone = noDomain
	}
	r.uncountAround()
}
