// SPDX-License-Identifier: Apache-2.0

// Package board is what the controllers tell each other in memory: how each
// workload has stood to its mix over time, and what was decided about it. It
// holds nothing that a new leader could not do without.
package board

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/policy"
	"berth.dev/berth/internal/rebalance"
)

// Move is a replica on the move: evicted, and its replacement not Ready yet.
type Move struct {
	UID             types.UID
	Namespace, Name string
	Started         time.Time
	// Wrong is how many replicas of the workload were on the wrong side before.
	Wrong int
	// Placeholder is the UID of one that keeps the room until the replica is gone; "" if there is none, or no more.
	Placeholder types.UID
}

// Placeholder is a pod that holds room for the replacement of a replica, or asks
// for it. The replica is on the move, but not evicted yet.
type Placeholder struct {
	UID             types.UID
	Namespace, Name string
	// Replica is the UID of the replica, ReplicaName its name.
	Replica     types.UID
	ReplicaName string
	// Waits says what keeps the replica from being moved besides room, "" if nothing does.
	Waits string
	// Seen is set once the watch has shown it.
	Seen bool
	rebalance.Holder
}

// Entry is what is remembered of one workload revision.
type Entry struct {
	Group fleet.Group
	// Mix is the name of its CapacityMix, "" if it has its mix from elsewhere.
	Mix string
	// WrongSince and RollingSince are when it was first seen out of its mix, or in a rollout; zero: it is not.
	WrongSince, RollingSince time.Time
	// Failures is how many moves failed in a row, RetryAt when the next may be tried.
	Failures int32
	RetryAt  time.Time
	// Moves are the replicas on the move.
	Moves []Move
	// Placeholders hold room for replicas that are to move next.
	Placeholders []Placeholder
	// Verdict is the last decision.
	Verdict rebalance.Verdict
	// Settings are what applied to it.
	Settings rebalance.Settings
	// Held are the replicas for which room was not proven or whose eviction was
	// refused, by UID, with the time until which they are left alone.
	Held map[string]Hold
	// Reported is the reason that the last event about it named.
	Reported rebalance.Reason
}

// inFlight is how many places in the budgets the workload takes.
func (e *Entry) inFlight() int { return len(e.Moves) + len(e.Placeholders) }

// Hold is a verdict that stands for a while.
type Hold struct {
	Verdict rebalance.Verdict
	Until   time.Time
}

// Board holds the entries by group. Safe for concurrent use; entries are
// values, and their slices and maps are replaced rather than changed.
type Board struct {
	mu sync.RWMutex
	// entries by namespace; moves counts the replicas on the move of all of them, placeholders included.
	entries map[string]map[policy.GroupKey]Entry
	moves   int
	// lists are what Namespace returned, until something changes there: a
	// namespace with many mixes asks once per mix.
	lists map[string][]Entry
	// storm is whether a spot storm is on.
	storm bool
	// complete is set once every namespace was looked at.
	complete bool
}

// New returns an empty board.
func New() *Board {
	return &Board{entries: map[string]map[policy.GroupKey]Entry{}, lists: map[string][]Entry{}}
}

// Get returns the entry of a group.
func (b *Board) Get(key policy.GroupKey) (Entry, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	e, ok := b.entries[key.Namespace][key]
	return e, ok
}

// Namespace returns the entries of a namespace, in no order. The list is shared
// and must not be changed.
func (b *Board) Namespace(namespace string) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if list, ok := b.lists[namespace]; ok {
		return list
	}
	list := slices.Collect(maps.Values(b.entries[namespace]))
	if len(list) > 0 {
		b.lists[namespace] = list
	}
	return list
}

// All returns every entry, in no order.
func (b *Board) All() []Entry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var all []Entry
	for _, entries := range b.entries {
		for _, e := range entries {
			all = append(all, e)
		}
	}
	return all
}

// Put adds or replaces the entry of a group.
func (b *Board) Put(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := e.Group.Key
	entries := b.entries[key.Namespace]
	if entries == nil {
		entries = map[policy.GroupKey]Entry{}
		b.entries[key.Namespace] = entries
	}
	delete(b.lists, key.Namespace)
	old := entries[key]
	b.moves += e.inFlight() - old.inFlight()
	entries[key] = e
}

// Retain drops the entries of a namespace that are not among those.
func (b *Board) Retain(namespace string, keys map[policy.GroupKey]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.lists, namespace)
	entries := b.entries[namespace]
	for key, e := range entries {
		if !keys[key] {
			b.moves -= e.inFlight()
			delete(entries, key)
		}
	}
	if len(entries) == 0 {
		delete(b.entries, namespace)
	}
}

// InFlight counts the replicas on the move, of the whole cluster and of one mix.
// One for which a placeholder asks for room is one of them.
func (b *Board) InFlight(namespace, mix string) (cluster, ofMix int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if mix == "" {
		return b.moves, 0
	}
	for _, e := range b.entries[namespace] {
		if e.Mix == mix {
			ofMix += e.inFlight()
		}
	}
	return b.moves, ofMix
}

// SetStorm notes whether a spot storm is on.
func (b *Board) SetStorm(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.storm = on
}

// Storm reports whether a spot storm is on.
func (b *Board) Storm() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.storm
}

// SetComplete notes that every namespace has been looked at: before, a mix
// seems to govern less than it does.
func (b *Board) SetComplete() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complete = true
}

// Complete reports whether every namespace has been looked at.
func (b *Board) Complete() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.complete
}
