// SPDX-License-Identifier: Apache-2.0

// Package board is what the controllers tell each other in memory: how each
// workload has stood to its mix over time, and what was decided about it. It
// holds nothing that a new leader could not do without.
package board

import (
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

// Hold is a verdict that stands for a while.
type Hold struct {
	Verdict rebalance.Verdict
	Until   time.Time
}

// Board holds the entries by group. Safe for concurrent use; entries are
// values, and their slices and maps are replaced rather than changed.
type Board struct {
	mu      sync.RWMutex
	entries map[policy.GroupKey]Entry
	// storm is whether a spot storm is on.
	storm bool
	// complete is set once every namespace was looked at.
	complete bool
}

// New returns an empty board.
func New() *Board { return &Board{entries: map[policy.GroupKey]Entry{}} }

// Get returns the entry of a group.
func (b *Board) Get(key policy.GroupKey) (Entry, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	e, ok := b.entries[key]
	return e, ok
}

// Namespace returns the entries of a namespace, in no order.
func (b *Board) Namespace(namespace string) []Entry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var all []Entry
	for key, e := range b.entries {
		if key.Namespace == namespace {
			all = append(all, e)
		}
	}
	return all
}

// All returns every entry, in no order.
func (b *Board) All() []Entry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]Entry, 0, len(b.entries))
	for _, e := range b.entries {
		all = append(all, e)
	}
	return all
}

// Put adds or replaces the entry of a group.
func (b *Board) Put(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[e.Group.Key] = e
}

// Retain drops the entries of a namespace that are not among those.
func (b *Board) Retain(namespace string, keys map[policy.GroupKey]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.entries {
		if key.Namespace == namespace && !keys[key] {
			delete(b.entries, key)
		}
	}
}

// InFlight counts the replicas on the move, of the whole cluster and of one mix.
func (b *Board) InFlight(namespace, mix string) (cluster, ofMix int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for key, e := range b.entries {
		cluster += len(e.Moves)
		if mix != "" && key.Namespace == namespace && e.Mix == mix {
			ofMix += len(e.Moves)
		}
	}
	return cluster, ofMix
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
