// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"slices"
	"sync"
	"sync/atomic"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// MaxPerNamespace is the number of CapacityMixes of a namespace that govern pods, the oldest ones.
const MaxPerNamespace = 1000

// Registry has the CapacityMixes of a cluster, ready for matching. It is safe for concurrent use.
type Registry struct {
	// Comparison keeps tolerations with the operators Gt and Lt: the feature gate TaintTolerationComparisonOperators of
	// Kubernetes is on. Otherwise they are dropped, because the API server refuses pods that have them. Set before use.
	Comparison bool

	mixes *budget.Selectors[*Mix]

	// limited are the mixes with limits of replicas in domains, avoiding those with AvoidInterrupted.
	limited, avoiding counted
}

// counted are mixes, of which the number is read without a lock.
type counted struct {
	n atomic.Int64

	mu    sync.Mutex // guards what follows
	mixes map[[2]string]struct{}
}

// set notes whether a mix is one of them.
func (c *counted) set(namespace, name string, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !is:
		delete(c.mixes, [2]string{namespace, name})
	case c.mixes == nil:
		c.mixes = map[[2]string]struct{}{{namespace, name}: {}}
	default:
		c.mixes[[2]string{namespace, name}] = struct{}{}
	}
	c.n.Store(int64(len(c.mixes)))
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{mixes: budget.NewSelectors[*Mix](MaxPerNamespace)}
}

// Empty returns an empty registry that converts mixes as this one does.
func (r *Registry) Empty() *Registry {
	empty := NewRegistry()
	empty.Comparison = r.Comparison
	return empty
}

// Set adds or replaces a CapacityMix. A mix that cannot be converted is removed from the registry and the error returned:
// it governs nothing.
func (r *Registry) Set(cm *v1alpha1.CapacityMix) error {
	m, selector, err := FromCapacityMix(cm)
	if err != nil {
		r.Delete(cm.Namespace, cm.Name)
		return err
	}
	if !r.Comparison {
		for t, all := range m.Tolerations { // which the mixes of the roles share
			m.Tolerations[t] = slices.DeleteFunc(all, compares)
		}
	}
	if len(m.MaxPerDomain) > 0 { // before a pod can have it
		r.limited.set(cm.Namespace, cm.Name, true)
	}
	if m.AvoidInterrupted {
		r.avoiding.set(cm.Namespace, cm.Name, true)
	}
	r.mixes.Set(cm.Namespace, &budget.Entry[*Mix]{
		Name: cm.Name, Created: cm.CreationTimestamp.Time, Selector: budget.CompileSelector(selector), Object: &m,
	})
	if len(m.MaxPerDomain) == 0 {
		r.limited.set(cm.Namespace, cm.Name, false)
	}
	if !m.AvoidInterrupted {
		r.avoiding.set(cm.Namespace, cm.Name, false)
	}
	return nil
}

// Limits reports whether a mix limits how many replicas are in one domain. It costs next to nothing.
func (r *Registry) Limits() bool { return r.limited.n.Load() > 0 }

// Avoids reports whether a mix has AvoidInterrupted. It costs next to nothing.
func (r *Registry) Avoids() bool { return r.avoiding.n.Load() > 0 }

// Delete removes a CapacityMix.
func (r *Registry) Delete(namespace, name string) {
	r.mixes.Delete(namespace, name)
	r.limited.set(namespace, name, false)
	r.avoiding.set(namespace, name, false)
}

// Version changes with the mixes of a namespace. It is 0 if there are none.
func (r *Registry) Version(namespace string) uint64 { return r.mixes.Version(namespace) }

// Plain reports whether no CapacityMix of a namespace has settings for groups.
func (r *Registry) Plain(namespace string) bool {
	if r == nil {
		return true
	}
	for _, e := range r.mixes.In(namespace) {
		if !e.Object.Plain() {
			return false
		}
	}
	return true
}

// Tops appends the names of the CapacityMixes of a namespace that group pods by their highest owner.
func (r *Registry) Tops(to []string, namespace string) []string {
	for _, e := range r.mixes.In(namespace) {
		if e.Object.Grouping.By == ByTop {
			to = append(to, e.Name)
		}
	}
	return to
}

// Match returns the mix of the oldest CapacityMix of the namespace that selects the labels, ties by name, and nil if
// there is none. The result is shared and must not be changed.
func (r *Registry) Match(namespace string, podLabels map[string]string) *Mix {
	m, _ := r.mixes.Oldest(namespace, podLabels)
	return m
}

// Exceeds reports whether a CapacityMix governs nothing because the older ones of its namespace reach MaxPerNamespace or, with
// their selectors, budget.MaxSelectorCost.
func (r *Registry) Exceeds(namespace, name string) bool { return r.mixes.Exceeds(namespace, name) }

// Selecting appends the names of all CapacityMixes of a namespace that select the labels, including those that govern
// nothing.
func (r *Registry) Selecting(to []string, namespace string, podLabels map[string]string) []string {
	for e := range r.mixes.Selecting(namespace, podLabels) {
		to = append(to, e.Name)
	}
	return to
}
