// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// MaxSelectorCost is the greatest sum of the costs of a namespace's selectors (Selector.Cost) that are matched: those of
// the oldest objects. 2,048 are about 1,000 selectors of one label, or 120 of 16 requirements each, and a match of all of
// them takes some 0.1 ms.
const MaxSelectorCost = 2048

// maxMemo is how many different sets of labels the result of a match is kept for, in each namespace.
const maxMemo = 1024

// Entry is an object with a selector.
type Entry[T any] struct {
	Name    string
	Created time.Time
	// Selector is what the object selects. Nil selects nothing and costs nothing.
	Selector *Selector
	// Object is shared, and must not be changed.
	Object T
}

// Older orders the entries of a namespace: oldest first, ties by name.
func Older[T any](a, b *Entry[T]) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// Affordable returns how many selectors of a namespace, oldest first, are matched: the sum of their costs is at most
// MaxSelectorCost.
func Affordable[T any](oldestFirst []T, selector func(T) *Selector) int {
	sum := 0
	for i, e := range oldestFirst {
		if s := selector(e); s != nil {
			sum += s.Cost()
		}
		if sum > MaxSelectorCost {
			return i
		}
	}
	return len(oldestFirst)
}

// Selectors are the selectors of all objects of a kind, by namespace. The costs of a look-up and of a change are bounded,
// whatever the tenants of a namespace write, and do not depend on other namespaces. It is safe for concurrent use.
type Selectors[T any] struct {
	// most is how many objects of a namespace are matched, the oldest ones.
	most int

	// changing is held by one change at a time, so that look-ups do not wait while it builds an index.
	changing sync.Mutex
	changes  uint64

	mu          sync.RWMutex
	byNamespace map[string]*namespace[T]
}

// NewSelectors returns an empty Selectors. Of each namespace, the most oldest objects are matched, if their selectors do
// not cost more than MaxSelectorCost.
func NewSelectors[T any](most int) *Selectors[T] {
	return &Selectors[T]{most: most, byNamespace: map[string]*namespace[T]{}}
}

// Set adds or replaces an object of a namespace.
func (s *Selectors[T]) Set(in string, e *Entry[T]) {
	s.change(in, e.Name, e)
}

// Delete removes an object of a namespace.
func (s *Selectors[T]) Delete(in, name string) {
	s.change(in, name, nil)
}

func (s *Selectors[T]) change(in, name string, e *Entry[T]) {
	s.changing.Lock()
	defer s.changing.Unlock()
	old := s.of(in)
	var list []*Entry[T]
	if old != nil {
		list = make([]*Entry[T], 0, len(old.list)+1)
		for _, o := range old.list {
			if o.Name != name {
				list = append(list, o)
			}
		}
		if e == nil && len(list) == len(old.list) {
			return
		}
	}
	if e != nil {
		at, _ := slices.BinarySearchFunc(list, e, Older)
		list = slices.Insert(list, at, e)
	}
	if len(list) == 0 {
		s.publish(in, nil)
		return
	}
	s.changes++
	n := &namespace[T]{list: list, affordable: min(s.most, affordable(list)), version: s.changes}
	if old != nil && old.used.Load() {
		n.once.Do(n.index) // here, and not in the next look-up, which may hold a lock
	}
	s.publish(in, n)
}

func (s *Selectors[T]) publish(in string, n *namespace[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n == nil {
		delete(s.byNamespace, in)
		return
	}
	s.byNamespace[in] = n
}

// Version changes with the objects of a namespace. It is 0 if there are none.
func (s *Selectors[T]) Version(in string) uint64 {
	if n := s.of(in); n != nil {
		return n.version
	}
	return 0
}

// Namespaces returns the namespaces that have objects, in no order.
func (s *Selectors[T]) Namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.byNamespace))
}

// In returns the entries of a namespace, oldest first. The list must not be changed.
func (s *Selectors[T]) In(in string) []*Entry[T] {
	if n := s.of(in); n != nil {
		return n.list
	}
	return nil
}

func affordable[T any](list []*Entry[T]) int {
	return Affordable(list, func(e *Entry[T]) *Selector { return e.Selector })
}

// Get returns an object of a namespace by its name.
func (s *Selectors[T]) Get(in, name string) (object T, found bool) {
	for _, e := range s.In(in) {
		if e.Name == name {
			return e.Object, true
		}
	}
	return object, false
}

// Exceeds reports whether an object selects nothing because older ones of its namespace reach a bound.
func (s *Selectors[T]) Exceeds(in, name string) bool {
	n := s.of(in)
	return n != nil && slices.ContainsFunc(n.list[n.affordable:], func(e *Entry[T]) bool { return e.Name == name })
}

// Oldest returns the oldest object of a namespace that selects labels, and whether there is one.
func (s *Selectors[T]) Oldest(in string, set map[string]string) (object T, found bool) {
	n := s.of(in)
	if n == nil {
		return object, false
	}
	at := n.oldest(set)
	if at < 0 {
		return object, false
	}
	return n.list[at].Object, true
}

// Selecting returns the objects of a namespace that select labels, in no order. It matches candidates at each call.
func (s *Selectors[T]) Selecting(in string, set map[string]string) func(yield func(*Entry[T]) bool) {
	return func(yield func(*Entry[T]) bool) {
		n := s.of(in)
		if n == nil {
			return
		}
		n.selecting(set, func(i int) bool { return yield(n.list[i]) })
	}
}

func (s *Selectors[T]) of(in string) *namespace[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byNamespace[in]
}

// Exceeded returns the message of an object's condition if Selectors.Exceeds: the plural of its kind, and how many objects
// of a namespace are matched.
func Exceeded(kinds string, most int) string {
	return fmt.Sprintf("only the %d oldest %s of a namespace govern pods, with at most %d label requirements in all",
		most, kinds, MaxSelectorCost)
}
