// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// Store holds the entries by group. It is safe for concurrent use. Entries are values: their slices and maps are replaced,
// never changed.
type Store struct {
	mu         sync.RWMutex
	namespaces map[string]*namespace
	// holding counts the placeholders.
	holding int
	// total and waiting are the sums over the namespaces. began counts the moves that began.
	total   rebalance.Standing
	waiting int
	began   uint64
	// busy are the namespaces that count in the budgets of others: those with moves, or with workloads that wait.
	busy map[string]*namespace
	// storm is set during a spot storm, complete once every workload was reconciled.
	storm, complete atomic.Bool
}

// namespace has the entries of one namespace, indexed by mix: a namespace can have a thousand mixes, and the status of each
// is composed alone.
type namespace struct {
	entries map[governing.GroupKey]*rebalance.Entry
	// governed and selected are the workloads that a mix governs, and those of which it selects a pod; mostly one.
	governed, selected map[string][]*rebalance.Entry
	// moves counts the replicas being moved by mix, placeholders included, and holding the placeholders alone.
	moves, holding map[string]int
	// standing is the namespace's share of the cluster's budget. waiting counts the entries that wait for that budget.
	standing rebalance.Standing
	waiting  int
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{namespaces: map[string]*namespace{}, busy: map[string]*namespace{}}
}

// Get returns the entry of a group.
func (s *Store) Get(key governing.GroupKey) (e rebalance.Entry, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if found := s.entry(key); found != nil {
		return *found, true
	}
	return e, false
}

// entry returns nil if there is none. s.mu is held.
func (s *Store) entry(key governing.GroupKey) *rebalance.Entry {
	if n := s.namespaces[key.Namespace]; n != nil {
		return n.entries[key]
	}
	return nil
}

// Settled reports whether a group has an entry, and whether that is settled and is about this version of the group and of
// its mix.
func (s *Store) Settled(g *clusterstate.Group, spec rebalance.Version) (settled, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.entry(g.Key)
	if e == nil {
		return false, false
	}
	return e.Group.Version == g.Version && e.Spec == spec && e.Settled(), true
}

// Len returns the number of entries of a namespace.
func (s *Store) Len(namespace string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.namespaces[namespace]; n != nil {
		return len(n.entries)
	}
	return 0
}

// Namespace returns the entries of a namespace, in no order.
func (s *Store) Namespace(namespace string) []rebalance.Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.namespaces[namespace]; n != nil {
		return copies(maps.Values(n.entries), len(n.entries))
	}
	return nil
}

// copies returns copies of n entries. They are large: a list that grows would cost four times as much.
func copies(entries iter.Seq[*rebalance.Entry], n int) []rebalance.Entry {
	list := make([]rebalance.Entry, 0, n)
	for e := range entries {
		list = append(list, *e)
	}
	return list
}

// Unsettled returns the entries of a namespace that are not settled, in no order.
func (s *Store) Unsettled(namespace string) []rebalance.Entry {
	return s.those(namespace, func(e *rebalance.Entry) bool { return !e.Settled() })
}

// Moving returns the entries of a namespace that have moves or placeholders, in no order.
func (s *Store) Moving(namespace string) []rebalance.Entry {
	return s.those(namespace, func(e *rebalance.Entry) bool { return len(e.Moves) > 0 || len(e.Placeholders) > 0 })
}

// those returns the entries of a namespace that are as wanted. It copies no others: an entry is large.
func (s *Store) those(namespace string, wanted func(*rebalance.Entry) bool) (list []rebalance.Entry) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.namespaces[namespace]; n != nil {
		for _, e := range n.entries {
			if wanted(e) {
				list = append(list, *e)
			}
		}
	}
	return list
}

// Replicas are those of a group, with what their mix is.
type Replicas struct {
	// Mix is the name of the CapacityMix, "" for a mix from elsewhere.
	Mix         string
	Split       split.Mix
	Assignments []clusterstate.Assignment
}

// Replicas returns the replicas of a namespace, in no order. They are a tenth of what Namespace copies.
func (s *Store) Replicas(namespace string) []Replicas {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.namespaces[namespace]
	if n == nil {
		return nil
	}
	list := make([]Replicas, 0, len(n.entries))
	for _, e := range n.entries {
		list = append(list, Replicas{e.Mix, e.Group.Governing.Mix, e.Group.Assignments})
	}
	return list
}

// OfMix returns the entries that a CapacityMix governs, in no order.
func (s *Store) OfMix(namespace, mix string) []rebalance.Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.namespaces[namespace]; n != nil {
		return copies(slices.Values(n.governed[mix]), len(n.governed[mix]))
	}
	return nil
}

// Others returns the names of the other CapacityMixes that govern pods which a mix selects, sorted.
func (s *Store) Others(namespace, mix string) (names []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.namespaces[namespace]
	if n == nil {
		return nil
	}
	for _, e := range n.selected[mix] {
		if by := e.Mix; by != "" && by != mix && !slices.Contains(names, by) {
			names = append(names, by)
		}
	}
	slices.Sort(names)
	return names
}

// All returns every entry, in no order.
func (s *Store) All() []rebalance.Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []rebalance.Entry
	for _, n := range s.namespaces {
		for _, e := range n.entries {
			all = append(all, *e)
		}
	}
	return all
}

// Namespaces returns the namespaces that have entries, in no order.
func (s *Store) Namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.namespaces))
}

// Put adds or replaces the entry of a group.
func (s *Store) Put(e rebalance.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := e.Group.Key
	n := s.namespace(key.Namespace)
	old := n.entries[key]
	if old != nil && old.Mix == e.Mix && slices.Equal(old.Selecting, e.Selecting) {
		s.count(n, old, -1)
		*old = e
		s.count(n, old, 1)
		return
	}
	s.remove(n, old)
	kept := new(e) // not &e, which would be allocated in every call
	n.entries[key] = kept
	s.count(n, kept, 1)
	n.governed[e.Mix] = append(n.governed[e.Mix], kept)
	for _, m := range e.Selecting {
		n.selected[m] = append(n.selected[m], kept)
	}
}

// namespace returns the state of a namespace, which it adds if there is none. s.mu is held.
func (s *Store) namespace(name string) *namespace {
	n := s.namespaces[name]
	if n == nil {
		n = &namespace{
			entries: map[governing.GroupKey]*rebalance.Entry{}, moves: map[string]int{}, holding: map[string]int{},
			governed: map[string][]*rebalance.Entry{}, selected: map[string][]*rebalance.Entry{},
		}
		s.namespaces[name] = n
	}
	return n
}

// Delete removes the entry of a group.
func (s *Store) Delete(key governing.GroupKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.namespaces[key.Namespace]
	if n == nil {
		return
	}
	s.remove(n, n.entries[key])
	if len(n.entries) == 0 {
		delete(s.namespaces, key.Namespace)
	}
}

// remove takes an entry out of the indexes; nil is none. s.mu is held.
func (s *Store) remove(n *namespace, e *rebalance.Entry) {
	if e == nil {
		return
	}
	s.count(n, e, -1)
	delete(n.entries, e.Group.Key)
	unindex(n.governed, e.Mix, e)
	for _, m := range e.Selecting {
		unindex(n.selected, m, e)
	}
}

func (s *Store) count(n *namespace, e *rebalance.Entry, sign int) {
	moves, of := sign*e.InFlight(), e.Standing()
	n.standing.Fresh, n.standing.Slow = n.standing.Fresh+sign*of.Fresh, n.standing.Slow+sign*of.Slow
	s.total.Fresh, s.total.Slow = s.total.Fresh+sign*of.Fresh, s.total.Slow+sign*of.Slow
	if e.Verdict.Reason == rebalance.ReasonClusterBudget || e.Verdict.Reason == rebalance.ReasonClusterPace {
		n.waiting, s.waiting = n.waiting+sign, s.waiting+sign
	}
	if name := e.Group.Key.Namespace; n.waiting > 0 || n.standing.Fresh > 0 {
		s.busy[name] = n
	} else {
		delete(s.busy, name)
	}
	if n.moves[e.Mix] += moves; n.moves[e.Mix] == 0 {
		delete(n.moves, e.Mix)
	}
	held := sign * len(e.Placeholders)
	s.holding += held
	if n.holding[e.Mix] += held; n.holding[e.Mix] == 0 {
		delete(n.holding, e.Mix)
	}
}

func unindex(by map[string][]*rebalance.Entry, mix string, e *rebalance.Entry) {
	by[mix] = slices.DeleteFunc(by[mix], func(other *rebalance.Entry) bool { return other == e })
	if len(by[mix]) == 0 {
		delete(by, mix)
	}
}

// Contention returns the number of replicas of the cluster that are being moved, and of workloads of a namespace and of the
// cluster that wait for the cluster's budget.
func (s *Store) Contention(namespace string) (inFlight, waitHere, wait int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if n := s.namespaces[namespace]; n != nil {
		waitHere = n.waiting
	}
	return s.total.Fresh + s.total.Slow, waitHere, s.waiting
}

// Budgets is how much of the budgets is taken, for one workload.
type Budgets struct {
	// Mix is the number of replicas of its mix that are being moved, those with a placeholder included. A workload without a
	// CapacityMix counts alone.
	Mix int
	// InFlight and Reserved are those of rebalance.Share.
	InFlight, Reserved int
	// Holding and MixHolding are the placeholders of the cluster and of the mix.
	Holding, MixHolding int
}

// Budgets counts as if the entry were in the store: what is decided about a workload is stored once, at the end.
func (s *Store) Budgets(e *rebalance.Entry) Budgets {
	s.mu.RLock()
	defer s.mu.RUnlock()
	of := e.Standing()
	mine := rebalance.Standing{Namespace: e.Group.Key.Namespace, Fresh: of.Fresh, Slow: of.Slow}
	held := len(e.Placeholders)
	b := Budgets{Mix: e.InFlight(), MixHolding: held, Holding: held + s.holding}
	if n := s.namespaces[e.Group.Key.Namespace]; n != nil {
		mine.Fresh, mine.Slow, mine.Began = mine.Fresh+n.standing.Fresh, mine.Slow+n.standing.Slow, n.standing.Began
		if e.Mix != "" {
			b.Mix += n.moves[e.Mix]
			b.MixHolding += n.holding[e.Mix]
		}
		if old := n.entries[e.Group.Key]; old != nil {
			was := old.Standing()
			mine.Fresh, mine.Slow = mine.Fresh-was.Fresh, mine.Slow-was.Slow
			b.Holding -= len(old.Placeholders)
			if e.Mix != "" && old.Mix == e.Mix {
				b.Mix -= old.InFlight()
				b.MixHolding -= len(old.Placeholders)
			}
		}
	}
	others := make([]rebalance.Standing, 0, len(s.busy))
	for name, n := range s.busy {
		if name != mine.Namespace {
			o := n.standing
			o.Namespace, o.Waits = name, n.waiting > 0
			others = append(others, o)
		}
	}
	b.InFlight, b.Reserved = rebalance.Share(mine, others)
	return b
}

// MoveBegan notes that a namespace began a move: of two that have as many, the other one has its turn first.
func (s *Store) MoveBegan(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began++
	s.namespace(namespace).standing.Began = s.began
}

// SetStorm sets whether there is a spot storm.
func (s *Store) SetStorm(on bool) { s.storm.Store(on) }

// Storm reports whether there is a spot storm.
func (s *Store) Storm() bool { return s.storm.Load() }

// SetComplete notes that every workload was reconciled. Before that, the entries of a mix are fewer than its workloads.
func (s *Store) SetComplete() { s.complete.Store(true) }

// Complete reports whether every workload was reconciled.
func (s *Store) Complete() bool { return s.complete.Load() }
