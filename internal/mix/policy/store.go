// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"berth.dev/berth/apis/v1alpha1"
)

// Store has the CapacityMixes of a cluster, ready for matching. It is safe for concurrent use.
type Store struct {
	// Comparison keeps tolerations with the operators Gt and Lt: the feature gate TaintTolerationComparisonOperators of
	// Kubernetes is on. Otherwise they are dropped, because the API server refuses pods that have them. Set before use.
	Comparison bool

	mu          sync.RWMutex
	byNamespace map[string]*mixes
	changes     uint64
}

// mixes are those of one namespace, oldest first. They are replaced together, never changed in place.
type mixes struct {
	list    []*compiled
	version uint64
	// The index is built on first use, because at startup mixes are added one at a time.
	once sync.Once
	// byLabel has the positions in list of the mixes whose selector requires a label, under one of the labels that it
	// requires. rest has the positions of all other mixes. A namespace may have a thousand mixes, of which one label of
	// a pod leaves a few.
	byLabel map[label][]int
	rest    []int
}

type label struct{ key, value string }

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{byNamespace: map[string]*mixes{}}
}

// Empty returns an empty store that converts mixes as this one does.
func (s *Store) Empty() *Store {
	empty := NewStore()
	empty.Comparison = s.Comparison
	return empty
}

// Set adds or replaces a CapacityMix. A mix that cannot be converted is removed from the store and the error returned:
// it governs nothing.
func (s *Store) Set(cm *v1alpha1.CapacityMix) error {
	p, selector, err := FromCapacityMix(cm)
	if !s.Comparison {
		for t, all := range p.Tolerations {
			p.Tolerations[t] = slices.DeleteFunc(all, compares)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.without(cm.Namespace, cm.Name)
	if err == nil {
		list = append(list, &compiled{name: cm.Name, uid: cm.UID, created: cm.CreationTimestamp, selector: selector, policy: p})
		slices.SortFunc(list, func(a, b *compiled) int {
			return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.name, b.name))
		})
	}
	s.replace(cm.Namespace, list)
	return err
}

// Delete removes a CapacityMix.
func (s *Store) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(namespace, s.without(namespace, name))
}

// without returns a copy of a namespace's list without one name.
func (s *Store) without(namespace, name string) []*compiled {
	old := s.byNamespace[namespace]
	if old == nil {
		return nil
	}
	list := make([]*compiled, 0, len(old.list)+1)
	for _, c := range old.list {
		if c.name != name {
			list = append(list, c)
		}
	}
	return list
}

func (s *Store) replace(namespace string, list []*compiled) {
	if len(list) == 0 {
		delete(s.byNamespace, namespace)
		return
	}
	s.changes++
	s.byNamespace[namespace] = &mixes{list: list, version: s.changes}
}

// Version changes with the mixes of a namespace. It is 0 if there are none.
func (s *Store) Version(namespace string) uint64 {
	if m := s.of(namespace); m != nil {
		return m.version
	}
	return 0
}

// Match returns the policy of the oldest CapacityMix of the namespace that selects the labels, ties by name, and nil if
// there is none. The result is shared and must not be changed.
func (s *Store) Match(namespace string, podLabels map[string]string) *Policy {
	m := s.of(namespace)
	if m == nil {
		return nil
	}
	oldest := len(m.list)
	for i := range m.selecting(podLabels) {
		oldest = min(oldest, i)
	}
	if oldest == len(m.list) {
		return nil
	}
	return &m.list[oldest].policy
}

// Selecting appends the names of all CapacityMixes of a namespace that select the labels, including those that govern
// nothing.
func (s *Store) Selecting(to []string, namespace string, podLabels map[string]string) []string {
	m := s.of(namespace)
	if m == nil {
		return to
	}
	for i := range m.selecting(podLabels) {
		to = append(to, m.list[i].name)
	}
	return to
}

func (s *Store) of(namespace string) *mixes {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byNamespace[namespace]
}

// selecting returns the positions of the mixes that select labels, in no order.
func (m *mixes) selecting(podLabels map[string]string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		m.once.Do(m.index)
		for _, i := range m.rest {
			if m.list[i].selector.Matches(labels.Set(podLabels)) && !yield(i) {
				return
			}
		}
		for k, v := range podLabels {
			for _, i := range m.byLabel[label{k, v}] {
				if m.list[i].selector.Matches(labels.Set(podLabels)) && !yield(i) {
					return
				}
			}
		}
	}
}

// index adds each mix under the label that the fewest mixes require.
func (m *mixes) index() {
	uses := map[label]int{}
	for _, c := range m.list {
		for _, of := range requiredLabels(c.selector) {
			for _, l := range of {
				uses[l]++
			}
		}
	}
	m.byLabel = make(map[label][]int, len(m.list))
	for i, c := range m.list {
		var best []label
		fewest := 0
		for _, of := range requiredLabels(c.selector) {
			n := 0
			for _, l := range of {
				n += uses[l]
			}
			if best == nil || n < fewest {
				best, fewest = of, n
			}
		}
		if best == nil {
			m.rest = append(m.rest, i)
		}
		for _, l := range best {
			m.byLabel[l] = append(m.byLabel[l], i)
		}
	}
}

// requiredLabels returns, for each requirement that a label has one of several values, these labels. An object with
// none of them is not selected.
func requiredLabels(selector labels.Selector) (all [][]label) {
	requirements, selectable := selector.Requirements()
	if !selectable { // selects nothing
		return nil
	}
	for i := range requirements {
		r := &requirements[i]
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			var of []label
			for v := range r.Values() { // a set: no label is in it twice
				of = append(of, label{r.Key(), v})
			}
			all = append(all, of)
		}
	}
	return all
}
