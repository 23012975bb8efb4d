// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Sizes returns the sizes of everything that the ledger keeps per pod, node,
// group or label value, those that are empty left out.
func (l *Ledger) Sizes() map[string]int {
	l.Node("") // publishes the table of the nodes
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes := map[string]int{
		"pods": len(l.pods), "groups": len(l.groups), "pods by node": len(l.onNode), "nodes": len(l.nodes.byName),
		"domains": len(l.domains.numbers), "domain numbers in use": len(l.domains.domains) - len(l.domains.free),
		"zones": len(l.zones.numbers), "zone numbers in use": len(l.zones.domains) - len(l.zones.free),
	}
	for t := range l.sides {
		name := capacity.Type(t).String()
		sizes[name+" nodes"], sizes[name+" zones"] = len(l.sides[t].where), len(l.sides[t].zones)
	}
	for _, s := range l.nodes.flat.Load().slots {
		if s.node.details != nil {
			sizes["nodes in the table"]++
		}
	}
	for _, g := range l.groups {
		sizes["domain counts"] += len(g.domains)
		sizes["zone counts"] += len(g.zones)
		sizes["units"] += len(g.units)
		sizes["seats"] += g.seats
		sizes["refused pods"] += len(g.refused)
		if g.limits != nil {
			for _, r := range g.limits.rules {
				sizes["limited domains"] += len(r.have)
				sizes["units in limited domains"] += len(r.units)
				sizes["pods without a node"] += int(r.open) + len(r.excluded) + len(r.named)
			}
		}
	}
	for name, size := range sizes {
		if size == 0 {
			delete(sizes, name)
		}
	}
	return sizes
}

// Entry is one pod of the ledger.
type Entry struct {
	UID  string
	Slot int
	Node string
	// Pending is set for a pod that holds its slot and was not seen bound.
	Pending bool
}

// Entries returns the pods of a group that is governed by a mix, sorted by
// slot, as the ledger has them.
func (l *Ledger) Entries(key governing.GroupKey, p *governing.Mix) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		return nil
	}
	l.govern(g, p, 0)
	g.reassign()
	entries := make([]Entry, 0, len(g.members))
	for uid, r := range g.members {
		slot := g.slotOf(r.seat)
		if slot != split.NoSlot { // a pending pod can have lost its claim
			entries = append(entries, Entry{UID: string(uid), Slot: slot, Node: r.node, Pending: r.state != bound})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.UID, b.UID)) })
	return entries
}

// Groups returns the keys of all groups, in no order.
func (l *Ledger) Groups() []governing.GroupKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.groups))
}

// Dump returns all that the ledger has of a group: two ledgers with one dump do the same from then on.
func (l *Ledger) Dump(key governing.GroupKey) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		return ""
	}
	var b strings.Builder
	for _, uid := range slices.Sorted(maps.Keys(g.members)) {
		r := g.members[uid]
		fmt.Fprintf(&b, "%s %d %d %t %t %t %q %d %v;", uid, r.state, r.seat.Slot, r.seat.unassigned, r.woken, r.doubt, r.node, r.seeks, r.tried())
	}
	fmt.Fprintf(&b, "%d", g.topPending)
	return b.String()
}

// LimitCounts returns what a group counts for its limits, as it was counted one by one and as a recount has it.
func (l *Ledger) LimitCounts(key governing.GroupKey) (kept, recounted string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil || g.limits == nil {
		return "", ""
	}
	again := newLimits(g.limits.of)
	for _, r := range g.members {
		if node := l.nodes.byName[r.node].details; node != nil {
			again.add(r.seat.unit(), node.labels)
		}
		if r.open != (r.node == "" && (r.state == ungated || r.state == claimed && r.leans != capacity.Unknown)) {
			return fmt.Sprint("open: ", r.open), string(r.uid)
		}
	}
	seats := map[*seat]bool{}
	for _, r := range g.members {
		if s := r.seat; s.open > 0 && !seats[s] {
			seats[s] = true
			again.open(s.confined, 1)
		}
	}
	return g.limits.dump(), again.dump()
}

func (l *Limits) dump() (text string) {
	for i := range l.rules {
		r := &l.rules[i]
		text += fmt.Sprintln(r.Key, r.have, r.units, r.open, r.excluded, r.named)
	}
	return text
}
