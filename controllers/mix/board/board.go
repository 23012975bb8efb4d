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

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

// Move is a replica being moved: evicted, and its replacement not Ready yet.
type Move struct {
	UID             types.UID
	Namespace, Name string
	Started         time.Time
	// Wrong is how many replicas of the workload were on the wrong side before.
	Wrong int
	// DoubtUntil is set where it is not known whether the API server carried the eviction out: its answer was lost, or an
	// earlier leader ended before it. A pod that lives on until then was not evicted.
	DoubtUntil time.Time
	// Slow is set once it has taken so long that it does not count for other namespaces.
	Slow bool
	// Placeholder is the UID of one that keeps the room until the replica is gone; "" if there is none, or no more.
	Placeholder types.UID
}

// Doubtful reports whether it is not known that the pod was evicted.
func (m *Move) Doubtful() bool { return !m.DoubtUntil.IsZero() }

// Placeholder is a pod that holds room for the replacement of a replica, or asks
// for it. The replica is being moved, but not evicted yet.
type Placeholder struct {
	UID             types.UID
	Namespace, Name string
	// Replica is the UID of the replica, ReplicaName its name.
	Replica     types.UID
	ReplicaName string
	// Waits says what keeps the replica from being moved, other than capacity, "" if nothing does.
	Waits string
	// Seen is set once the watch has shown it.
	Seen bool
	// Slow is that of a Move.
	Slow bool
	rebalance.Holder
}

// Entry is what is remembered of one workload revision.
type Entry struct {
	Group clusterstate.Group
	// Seen is the group as the cluster state had it when it was last looked at, by address.
	Seen *clusterstate.Group
	// Mix is the name of its CapacityMix, "" if it gets its mix from elsewhere.
	Mix string
	// Spec is which version of the CapacityMix the settings are from.
	Spec Version
	// Selecting are the names of all CapacityMixes that select one of its pods, sorted; they are replaced rather than changed.
	Selecting []string
	// WrongSince and RollingSince are when it was first seen out of its mix, or in a rollout; zero: it is not.
	WrongSince, RollingSince time.Time
	// Failures is how many moves failed in a row, RetryAt when the next may be tried.
	Failures int32
	RetryAt  time.Time
	// Moves are the replicas being moved.
	Moves []Move
	// Had is how many live pods there were before the first of the moves since when not all of them have been Ready, 0 if
	// all are. Where the owner does not tell its replicas, nothing more moves until so many are Ready again.
	Had int
	// Scaled is set where Had follows the scale subresource of the owner.
	Scaled bool
	// Restored is set where it is what an earlier leader recorded, and nothing was looked at yet.
	Restored bool
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

// InFlight is how many places in the budgets the workload takes.
func (e *Entry) InFlight() int { return len(e.Moves) + len(e.Placeholders) }

// standing counts what the workload takes of the budget of the cluster.
func (e *Entry) standing() (s rebalance.Standing) {
	for i := range e.Moves {
		add(&s, e.Moves[i].Slow)
	}
	for i := range e.Placeholders {
		add(&s, e.Placeholders[i].Slow)
	}
	return s
}

func add(s *rebalance.Standing, slow bool) {
	if slow {
		s.Slow++
	} else {
		s.Fresh++
	}
}

// Settled reports whether nothing about the workload can change as long as its
// group and its mix do not: not by time, nor by what happens to other workloads
// or to nodes that it does not run on.
func (e *Entry) Settled() bool {
	return e.Verdict.Reason == rebalance.ReasonOnTarget && e.InFlight() == 0 && e.Had == 0 && len(e.Held) == 0
}

// Version tells a CapacityMix from others, and its spec from former ones.
type Version struct {
	UID        types.UID
	Generation int64
}

// Decision says what was looked at in a namespace.
type Decision struct {
	Namespace string
	// All are all CapacityMixes of the namespace, nil where only some of it was looked at. They are the cache's.
	All map[string]*v1alpha1.CapacityMix
	// Mixes are the CapacityMixes whose status may be another one.
	Mixes map[string]bool
	// Groups are the workloads that were looked at.
	Groups []policy.GroupKey
}

// Hold is a verdict that stands for a while.
type Hold struct {
	Verdict rebalance.Verdict
	Until   time.Time
}

// Board holds the entries by group. Safe for concurrent use; entries are
// values, and their slices and maps are replaced rather than changed.
type Board struct {
	mu         sync.RWMutex
	namespaces map[string]*shelf
	// total and waiting are the sums of those of the shelves, served counts the moves that began.
	total   rebalance.Standing
	waiting int
	served  uint64
	// busy are the namespaces that other ones have to consider: with moves, or workloads that wait.
	busy map[string]*shelf
	// storm is whether a spot storm is on.
	storm bool
	// complete is set once every namespace was looked at.
	complete bool
}

// shelf has the entries of a namespace, and who has which mix: a namespace may
// have a thousand, and each is checked alone.
type shelf struct {
	entries map[policy.GroupKey]*Entry
	// governed and selected are the workloads that a mix governs, and those of which it selects a pod.
	governed, selected map[string]map[policy.GroupKey]struct{}
	// moves counts the replicas being moved by mix, placeholders included.
	moves map[string]int
	// standing is what it has of the budget of the cluster, waiting how many entries wait for that.
	standing rebalance.Standing
	waiting  int
}

// New returns an empty board.
func New() *Board { return &Board{namespaces: map[string]*shelf{}, busy: map[string]*shelf{}} }

// Get returns the entry of a group.
func (b *Board) Get(key policy.GroupKey) (e Entry, ok bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.namespaces[key.Namespace]; s != nil && s.entries[key] != nil {
		return *s.entries[key], true
	}
	return e, false
}

// Settled reports whether a group is settled, and was last looked at as this
// one, with that version of its mix.
func (b *Board) Settled(g *clusterstate.Group, spec Version) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.namespaces[g.Key.Namespace]
	if s == nil {
		return false
	}
	e := s.entries[g.Key]
	return e != nil && e.Seen == g && e.Spec == spec && e.Settled()
}

// Len returns how many entries a namespace has.
func (b *Board) Len(namespace string) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.namespaces[namespace]; s != nil {
		return len(s.entries)
	}
	return 0
}

// Namespace returns the entries of a namespace, in no order.
func (b *Board) Namespace(namespace string) []Entry {
	return b.pick(namespace, func(*Entry) bool { return true })
}

// Restless returns the entries of a namespace that are not settled, in no order.
func (b *Board) Restless(namespace string) []Entry {
	return b.pick(namespace, func(e *Entry) bool { return !e.Settled() })
}

func (b *Board) pick(namespace string, which func(*Entry) bool) (list []Entry) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.namespaces[namespace]; s != nil {
		for _, e := range s.entries {
			if which(e) {
				list = append(list, *e)
			}
		}
	}
	return list
}

// OfMix returns the entries that a CapacityMix governs, in no order.
func (b *Board) OfMix(namespace, mix string) (list []Entry) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.namespaces[namespace]; s != nil {
		for key := range s.governed[mix] {
			list = append(list, *s.entries[key])
		}
	}
	return list
}

// Others returns the names of other CapacityMixes that govern pods which a mix
// selects, sorted.
func (b *Board) Others(namespace, mix string) (names []string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.namespaces[namespace]
	if s == nil {
		return nil
	}
	for key := range s.selected[mix] {
		if by := s.entries[key].Mix; by != "" && by != mix && !slices.Contains(names, by) {
			names = append(names, by)
		}
	}
	slices.Sort(names)
	return names
}

// All returns every entry, in no order.
func (b *Board) All() []Entry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var all []Entry
	for _, s := range b.namespaces {
		for _, e := range s.entries {
			all = append(all, *e)
		}
	}
	return all
}

// Namespaces returns the namespaces that have entries, in no order.
func (b *Board) Namespaces() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Collect(maps.Keys(b.namespaces))
}

// Put adds or replaces the entry of a group.
func (b *Board) Put(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := e.Group.Key
	s := b.namespaces[key.Namespace]
	if s == nil {
		s = &shelf{
			entries: map[policy.GroupKey]*Entry{}, moves: map[string]int{},
			governed: map[string]map[policy.GroupKey]struct{}{}, selected: map[string]map[policy.GroupKey]struct{}{},
		}
		b.namespaces[key.Namespace] = s
	}
	old := s.entries[key]
	if old != nil && old.Mix == e.Mix && slices.Equal(old.Selecting, e.Selecting) {
		b.count(s, old, -1)
		*old = e
		b.count(s, old, 1)
		return
	}
	b.remove(s, old)
	kept := new(e) // not &e, which would be made for every call
	s.entries[key] = kept
	b.count(s, kept, 1)
	file(s.governed, e.Mix, key)
	for _, m := range e.Selecting {
		file(s.selected, m, key)
	}
}

// Drop forgets a group.
func (b *Board) Drop(key policy.GroupKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.namespaces[key.Namespace]
	if s == nil {
		return
	}
	b.remove(s, s.entries[key])
	if len(s.entries) == 0 {
		delete(b.namespaces, key.Namespace)
	}
}

// remove takes an entry off its shelf; nil is none.
func (b *Board) remove(s *shelf, e *Entry) {
	if e == nil {
		return
	}
	key := e.Group.Key
	b.count(s, e, -1)
	delete(s.entries, key)
	unfile(s.governed, e.Mix, key)
	for _, m := range e.Selecting {
		unfile(s.selected, m, key)
	}
}

func (b *Board) count(s *shelf, e *Entry, sign int) {
	n, of := sign*e.InFlight(), e.standing()
	s.standing.Fresh, s.standing.Slow = s.standing.Fresh+sign*of.Fresh, s.standing.Slow+sign*of.Slow
	b.total.Fresh, b.total.Slow = b.total.Fresh+sign*of.Fresh, b.total.Slow+sign*of.Slow
	if e.Verdict.Reason == rebalance.ReasonClusterBudget {
		s.waiting, b.waiting = s.waiting+sign, b.waiting+sign
	}
	if name := e.Group.Key.Namespace; s.waiting > 0 || s.standing.Fresh > 0 {
		b.busy[name] = s
	} else {
		delete(b.busy, name)
	}
	if s.moves[e.Mix] += n; s.moves[e.Mix] == 0 {
		delete(s.moves, e.Mix)
	}
}

func file(index map[string]map[policy.GroupKey]struct{}, mix string, key policy.GroupKey) {
	if index[mix] == nil {
		index[mix] = map[policy.GroupKey]struct{}{}
	}
	index[mix][key] = struct{}{}
}

func unfile(index map[string]map[policy.GroupKey]struct{}, mix string, key policy.GroupKey) {
	if delete(index[mix], key); len(index[mix]) == 0 {
		delete(index, mix)
	}
}

// InFlight counts the replicas being moved of one mix. One for which a
// placeholder requests room is one of them.
func (b *Board) InFlight(namespace, mix string) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.namespaces[namespace]; s != nil && mix != "" {
		return s.moves[mix]
	}
	return 0
}

// Contention says how many replicas of the cluster are being moved, and how many
// workloads of a namespace, and of the cluster, wait for its budget.
func (b *Board) Contention(namespace string) (inFlight, waitHere, wait int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if s := b.namespaces[namespace]; s != nil {
		waitHere = s.waiting
	}
	return b.total.Fresh + b.total.Slow, waitHere, b.waiting
}

// Share is rebalance.Share of a namespace.
func (b *Board) Share(namespace string) (inFlight, reserved int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	mine := rebalance.Standing{Namespace: namespace}
	if s := b.namespaces[namespace]; s != nil {
		mine.Fresh, mine.Slow, mine.Served = s.standing.Fresh, s.standing.Slow, s.standing.Served
	}
	others := make([]rebalance.Standing, 0, len(b.busy))
	for name, s := range b.busy {
		if name != namespace {
			of := s.standing
			of.Namespace, of.Waits = name, s.waiting > 0
			others = append(others, of)
		}
	}
	return rebalance.Share(mine, others)
}

// Served notes that a namespace began a move.
func (b *Board) Served(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.namespaces[namespace]; s != nil {
		b.served++
		s.standing.Served = b.served
	}
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
