// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// namespace has the entries of one namespace. It is replaced at each change.
type namespace[T any] struct {
	// list is oldest first; the first affordable ones are matched.
	list       []*Entry[T]
	affordable int
	version    uint64

	// The index is built on first use, because at startup entries are added one at a time.
	once sync.Once
	used atomic.Bool
	// byLabel has the positions of the entries that require a label, under one of the labels that they require. rest has
	// those of all others.
	byLabel map[label][]int
	rest    []int
	// keys are the label keys that any selector reads, each with its hash: labels that do not differ in them are selected
	// by the same entries.
	keys map[string]uint64

	mu   sync.RWMutex
	memo map[uint64]int // the oldest entry that selects labels, by their hash; -1 for none
}

var seed = maphash.MakeSeed()

// oldest returns the position of the oldest entry that selects labels, -1 if none does. The pods of a workload have the
// same labels, or differ in labels that no selector reads, so that they are matched once.
func (n *namespace[T]) oldest(set map[string]string) int {
	n.once.Do(n.index)
	hash := n.hash(set)
	n.mu.RLock()
	at, known := n.memo[hash]
	n.mu.RUnlock()
	if known {
		return at
	}
	at = -1
	n.selecting(set, func(i int) bool {
		if at < 0 || i < at {
			at = i
		}
		return true
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.memo) >= maxMemo {
		clear(n.memo) // labels are a tenant's: there may be no end of them
	}
	n.memo[hash] = at
	return at
}

// hash returns a hash of the labels whose keys any selector reads. Tenants cannot find two sets with one hash, because
// the seed is random.
func (n *namespace[T]) hash(set map[string]string) (sum uint64) {
	if len(set) <= len(n.keys) {
		for key, value := range set {
			if of, read := n.keys[key]; read {
				sum += mixed(of, value)
			}
		}
		return sum
	}
	for key, of := range n.keys {
		if value, has := set[key]; has {
			sum += mixed(of, value)
		}
	}
	return sum
}

// mixed combines the hash of a key with a value, so that a sum of results does not depend on the order.
func mixed(key uint64, value string) uint64 {
	h := key ^ maphash.String(seed, value)*0x9e3779b97f4a7c15
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	return h
}

// selecting calls a function with the positions of the entries that select labels, in no order, until it returns false.
func (n *namespace[T]) selecting(set map[string]string, yield func(int) bool) {
	n.once.Do(n.index)
	for _, i := range n.rest {
		if n.list[i].Selector.Matches(set) && !yield(i) {
			return
		}
	}
	if len(set) > len(n.byLabel) {
		for l, positions := range n.byLabel {
			if set[l.key] == l.value && !n.yieldMatching(positions, set, yield) {
				return
			}
		}
		return
	}
	for key, value := range set {
		if !n.yieldMatching(n.byLabel[label{key, value}], set, yield) {
			return
		}
	}
}

func (n *namespace[T]) yieldMatching(positions []int, set map[string]string, yield func(int) bool) bool {
	for _, i := range positions {
		if n.list[i].Selector.Matches(set) && !yield(i) {
			return false
		}
	}
	return true
}

// index adds each affordable entry under the label that the fewest entries require.
func (n *namespace[T]) index() {
	n.used.Store(true)
	uses := map[label]int{}
	required := make([][][]label, n.affordable)
	n.keys = map[string]uint64{}
	for i, e := range n.list[:n.affordable] {
		if e.Selector == nil {
			continue
		}
		for _, r := range e.Selector.requirements {
			n.keys[r.key] = maphash.String(seed, r.key)
		}
		required[i] = e.Selector.required()
		for _, of := range required[i] {
			for _, l := range of {
				uses[l]++
			}
		}
	}
	n.byLabel = map[label][]int{}
	for i, e := range n.list[:n.affordable] {
		if e.Selector == nil || e.Selector.nothing {
			continue
		}
		best, found := fewest(required[i], uses)
		if !found {
			n.rest = append(n.rest, i)
		}
		for _, l := range best {
			n.byLabel[l] = append(n.byLabel[l], i)
		}
	}
	n.memo = map[uint64]int{}
}

// fewest returns the requirement whose labels the fewest entries require.
func fewest(required [][]label, uses map[label]int) (best []label, found bool) {
	least := 0
	for _, of := range required {
		n := 0
		for _, l := range of {
			n += uses[l]
		}
		if !found || n < least {
			best, least, found = of, n, true
		}
	}
	return best, found
}
