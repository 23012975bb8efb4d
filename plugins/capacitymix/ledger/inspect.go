// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"slices"

	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
)

// Entry is one pod of the ledger.
type Entry struct {
	UID  string
	Slot int
	Node string
	// Pending says that the pod holds its slot but is not seen bound.
	Pending bool
}

// Entries returns the pods of a group that is governed by a policy, sorted by
// slot: what the ledger believes.
func (l *Ledger) Entries(key policy.GroupKey, p *policy.Policy) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[key]
	if g == nil {
		return nil
	}
	l.govern(g, p)
	g.settle()
	entries := make([]Entry, 0, len(g.members))
	for uid, r := range g.members {
		slot := r.pod.Slot
		if r.unassigned {
			slot = r.assignment
		}
		if slot != split.NoSlot { // a pending pod can have lost its claim
			entries = append(entries, Entry{UID: string(uid), Slot: slot, Node: r.node, Pending: r.state != bound})
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.UID, b.UID)) })
	return entries
}

// Groups returns the keys of all groups.
func (l *Ledger) Groups() []policy.GroupKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]policy.GroupKey, 0, len(l.groups))
	for key := range l.groups {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b policy.GroupKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID))
	})
	return keys
}

// Size returns how many groups and pods the ledger holds.
func (l *Ledger) Size() (groups, pods int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.groups), len(l.pods)
}
