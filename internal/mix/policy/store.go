// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// MaxPerNamespace is the number of CapacityMixes of a namespace that govern pods, the oldest ones.
const MaxPerNamespace = 1000

// Store has the CapacityMixes of a cluster, ready for matching. It is safe for concurrent use.
type Store struct {
	// Comparison keeps tolerations with the operators Gt and Lt: the feature gate TaintTolerationComparisonOperators of
	// Kubernetes is on. Otherwise they are dropped, because the API server refuses pods that have them. Set before use.
	Comparison bool

	mixes *budget.Selectors[*Policy]
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{mixes: budget.NewSelectors[*Policy](MaxPerNamespace)}
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
	if err != nil {
		s.mixes.Delete(cm.Namespace, cm.Name)
		return err
	}
	if !s.Comparison {
		for t, all := range p.Tolerations {
			p.Tolerations[t] = slices.DeleteFunc(all, compares)
		}
	}
	s.mixes.Set(cm.Namespace, &budget.Entry[*Policy]{
		Name: cm.Name, Created: cm.CreationTimestamp.Time, Selector: budget.CompileSelector(selector), Object: &p,
	})
	return nil
}

// Delete removes a CapacityMix.
func (s *Store) Delete(namespace, name string) { s.mixes.Delete(namespace, name) }

// Version changes with the mixes of a namespace. It is 0 if there are none.
func (s *Store) Version(namespace string) uint64 { return s.mixes.Version(namespace) }

// Match returns the policy of the oldest CapacityMix of the namespace that selects the labels, ties by name, and nil if
// there is none. The result is shared and must not be changed.
func (s *Store) Match(namespace string, podLabels map[string]string) *Policy {
	p, _ := s.mixes.Oldest(namespace, podLabels)
	return p
}

// Exceeds reports whether a CapacityMix governs nothing because the older ones of its namespace reach MaxPerNamespace or, with
// their selectors, budget.MaxSelectorCost.
func (s *Store) Exceeds(namespace, name string) bool { return s.mixes.Exceeds(namespace, name) }

// Selecting appends the names of all CapacityMixes of a namespace that select the labels, including those that govern
// nothing.
func (s *Store) Selecting(to []string, namespace string, podLabels map[string]string) []string {
	for e := range s.mixes.Selecting(namespace, podLabels) {
		to = append(to, e.Name)
	}
	return to
}
