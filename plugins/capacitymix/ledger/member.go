// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/split"
)

// Next returns what Claim would give a new pod, and leaves it free. The members of a pod group are tried one after the
// other: each takes its slot with its node, so the next one gets another, and none holds a slot while the group waits. Those of one
// unit get the same slot.
func (l *Ledger) Next(c Claim) Hold {
	l.mu.Lock()
	defer l.unlockFor(c.Pod.UID)
	g := l.groups[c.Group]
	if g == nil {
		slot := max(c.Slot, 0)
		return Hold{Slot: slot, Type: c.Governing.Mix.TypeOf(slot), Limits: emptyLimits(c.Governing)}
	}
	l.govern(g, c.Governing, c.Wanted)
	s := g.seatOf(c.Unit)
	switch {
	case s != nil && (s.Slot != split.NoSlot || s.unassigned):
		t, fixed := g.typeFor(s, l.pods[c.Pod.UID])
		return Hold{Slot: g.slotOf(s), Type: t, Fixed: fixed, Limits: g.limits, Open: s.open > 0}
	case c.Slot != split.NoSlot:
		return Hold{Slot: c.Slot, Type: g.mix.TypeOf(c.Slot), Limits: g.limits}
	}
	slot := g.next(c.AnyOrder)
	return Hold{Slot: slot, Type: g.mix.TypeOf(slot), Limits: g.limits}
}

// Take gives a member of a pod group a slot that is still free, or that of its unit, and assigns it to a node.
func (l *Ledger) Take(c Claim, slot int, node string) error {
	l.mu.Lock()
	defer l.unlockFor(c.Pod.UID)
	if l.outdated(c.Pod.Namespace, c.Version) || l.pods[c.Pod.UID] != nil || !c.Exists() {
		return ErrNoClaim
	}
	if g := l.groups[c.Group]; g != nil && c.Slot == split.NoSlot && !g.mayTake(c.Unit, slot) {
		return ErrNoClaim
	}
	r := l.add(c.Pod.UID, c.Member, c.Pod.CreationTimestamp.UnixNano())
	g, s := r.group, r.seat
	l.govern(g, c.Governing, c.Wanted)
	if err := l.misfit(r, node); err != nil {
		l.remove(r)
		return err
	}
	switch {
	case c.Slot != split.NoSlot:
		g.identify(s, slot)
	case s.Slot == split.NoSlot && !s.unassigned:
		g.take(s, slot)
	}
	r.change(func() { r.state, r.brought, r.on = reserved, small(slot), l.nodes.byName[node].Type })
	g.refit(s)
	l.place(r, node)
	return nil
}

// misfit is why a pod cannot be on a node, nil if it can.
func (l *Ledger) misfit(r *record, node string) error {
	switch {
	case l.straddles(r, node):
		return ErrNoClaim
	case !l.admits(r, node):
		return ErrDomainFull
	}
	return nil
}

// mayTake reports whether a pod can take a slot: that of its unit, or a free one.
func (g *group) mayTake(unit string, slot int) bool {
	if s := g.seatOf(unit); s != nil && (s.Slot != split.NoSlot || s.unassigned) {
		return g.slotOf(s) == slot
	}
	return !g.inUse().Has(slot)
}

// Return takes slot and node from a member that is not bound after all. Like Unreserve it may be called any number of times.
func (l *Ledger) Return(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && r.state == reserved {
		l.remove(r)
	}
}
