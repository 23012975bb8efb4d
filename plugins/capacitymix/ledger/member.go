// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/split"
)

// Next returns the slot that Claim would give a new pod, and leaves it free. The members of a pod group are tried one after the
// other: each takes its slot with its node, so the next one gets another, and none holds a slot while the group waits.
func (l *Ledger) Next(c Claim) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Slot != split.NoSlot {
		return c.Slot
	}
	g := l.groups[c.Group]
	if g == nil {
		return 0
	}
	l.govern(g, c.Governing)
	return g.next(c.AnyOrder)
}

// Take gives a member of a pod group a slot that is still free, and assigns it to a node.
func (l *Ledger) Take(c Claim, slot int, node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods[c.Pod.UID] != nil || !c.Exists() {
		return ErrNoClaim
	}
	if g := l.groups[c.Group]; g != nil && c.Slot == split.NoSlot && g.inUse().Has(slot) {
		return ErrNoClaim
	}
	r := l.add(c.Pod.UID, c.Group, c.Pod.CreationTimestamp.UnixNano())
	l.govern(r.group, c.Governing)
	if c.Slot != split.NoSlot {
		r.identity, r.pod.Slot = true, slot
	} else {
		r.group.take(r, slot)
	}
	r.state = reserved
	l.place(r, node)
	return nil
}

// Return takes slot and node from a member that is not bound after all. Like Unreserve it may be called any number of times.
func (l *Ledger) Return(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && r.state == reserved {
		l.remove(r)
	}
}
