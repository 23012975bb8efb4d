// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"hash/maphash"
	"iter"
	"sync/atomic"
)

// nodeTable holds the nodes. It is written, seldom, under Ledger.mu, and read
// by every Filter and Score call without a lock.
//
// The readers walk thousands of nodes per pod, each of them once, so a look-up
// costs what it misses in the processor's caches. That is why they read a flat
// table, one line of memory per node, and not a map. It is rebuilt when it is
// read for the first time after a change.
type nodeTable struct {
	byName map[string]Node // guarded by Ledger.mu
	stale  atomic.Bool
	flat   atomic.Pointer[flatTable]
}

func (t *nodeTable) set(name string, n Node) {
	t.byName[name] = n
	t.stale.Store(true)
}

func (t *nodeTable) remove(name string) {
	delete(t.byName, name)
	t.stale.Store(true)
}

// publish builds the table that is read. Under Ledger.mu.
func (t *nodeTable) publish() {
	if t.stale.Load() {
		t.flat.Store(newFlatTable(t.byName))
		t.stale.Store(false)
	}
}

// Node returns what is known of a node, false if it has not been seen. It takes
// no lock unless nodes changed since the last call, and allocates nothing.
func (l *Ledger) Node(name string) (Node, bool) {
	if l.nodes.stale.Load() {
		l.mu.Lock()
		l.nodes.publish()
		l.mu.Unlock()
	}
	return l.nodes.flat.Load().get(name)
}

// Nodes are all nodes. It takes no lock unless nodes changed since the last call.
func (l *Ledger) Nodes() iter.Seq[Node] {
	l.Node("") // publishes the table
	slots := l.nodes.flat.Load().slots
	return func(yield func(Node) bool) {
		for i := range slots {
			if n := slots[i].node; n.details != nil && !yield(n) {
				return
			}
		}
	}
}

// flatTable is an immutable hash table with open addressing, at most half full.
type flatTable struct {
	seed  maphash.Seed
	mask  uint64
	slots []flatSlot
}

type flatSlot struct {
	name string
	node Node
}

func newFlatTable(nodes map[string]Node) *flatTable {
	size := 2
	for size < 2*len(nodes) {
		size *= 2
	}
	t := &flatTable{seed: maphash.MakeSeed(), mask: uint64(size) - 1, slots: make([]flatSlot, size)}
	for name, n := range nodes {
		i := maphash.String(t.seed, name) & t.mask
		for t.slots[i].node.details != nil {
			i = (i + 1) & t.mask
		}
		t.slots[i] = flatSlot{name: name, node: n}
	}
	return t
}

func (t *flatTable) get(name string) (Node, bool) {
	for i := maphash.String(t.seed, name) & t.mask; ; i = (i + 1) & t.mask {
		s := &t.slots[i]
		if s.node.details == nil {
			return Node{}, false
		}
		if s.name == name {
			return s.node, true
		}
	}
}
