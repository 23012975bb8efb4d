// SPDX-License-Identifier: Apache-2.0

// Package registry decides which ResourceLimit a pod has, and what it means for
// the pod and for nodes. Its decisions are functions of the objects passed in;
// it reads no API.
package registry

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// MaxSelecting is the number of limits of a namespace that select pods, the oldest ones with a selector.
const MaxSelecting = 1000

// Resolution is what a pod's size is. The zero value: the pod has none.
type Resolution struct {
	// Limit is the pod's size. It is shared and must not be changed.
	Limit *Compiled
	// Missing is the "namespace/name" that the pod names and that does not exist.
	Missing string
}

// Registry holds the ResourceLimits of a cluster, ready for matching.
// Safe for concurrent use.
type Registry struct {
	// defaultNamespace is where a name is looked for that is not in the pod's
	// own namespace; "" for nowhere.
	defaultNamespace string

	mu     sync.RWMutex
	byName map[types.NamespacedName]*Compiled
	// selecting are the limits with a selector.
	selecting *budget.Selectors[*Compiled]
}

// NewRegistry returns an empty registry. The namespace is the cluster's default
// one for limits, "" for none.
func NewRegistry(defaultNamespace string) *Registry {
	return &Registry{
		defaultNamespace: defaultNamespace,
		byName:           map[types.NamespacedName]*Compiled{},
		selecting:        budget.NewSelectors[*Compiled](MaxSelecting),
	}
}

// Set adds or replaces a limit, which must not be changed afterwards. It reports
// whether that makes a difference to any pod: a limit is compiled once per
// generation, so a new status or label does not.
func (r *Registry) Set(limit *v1alpha1.ResourceLimit) (changed bool) {
	key := types.NamespacedName{Namespace: limit.Namespace, Name: limit.Name}
	r.mu.RLock()
	known := r.byName[key]
	r.mu.RUnlock()
	if known != nil && limit.Generation > 0 && known.Limit.Generation == limit.Generation && known.Limit.UID == limit.UID {
		return false
	}
	compiled := Compile(limit)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(key)
	r.byName[key] = compiled
	if compiled.selector != nil {
		r.selecting.Set(key.Namespace, &budget.Entry[*Compiled]{
			Name: key.Name, Created: limit.CreationTimestamp.Time, Selector: compiled.selector, Object: compiled,
		})
	}
	return true
}

// Delete removes a limit.
func (r *Registry) Delete(namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(types.NamespacedName{Namespace: namespace, Name: name})
}

func (r *Registry) remove(key types.NamespacedName) {
	old := r.byName[key]
	if old == nil {
		return
	}
	delete(r.byName, key)
	r.selecting.Delete(key.Namespace, key.Name)
}

// Exceeds reports whether a limit selects no pods because older ones of its namespace reach MaxSelecting or, with their
// selectors, budget.MaxSelectorCost. Pods can have it by its name.
func (r *Registry) Exceeds(namespace, name string) bool { return r.selecting.Exceeds(namespace, name) }

// For returns a pod's size: the limit that it names in its own namespace, else
// in the default one; without a name, the oldest of its namespace that selects
// it. Mirror pods have none: no scheduler decides about them.
func (r *Registry) For(pod *corev1.Pod) Resolution {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return Resolution{}
	}
	if name := Named(pod); name != "" {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.named(pod.Namespace, name)
	}
	limit, _ := r.selecting.Oldest(pod.Namespace, pod.Labels)
	return Resolution{Limit: limit}
}

func (r *Registry) named(namespace, name string) Resolution {
	if c := r.byName[types.NamespacedName{Namespace: namespace, Name: name}]; c != nil {
		return Resolution{Limit: c}
	}
	if r.defaultNamespace != "" {
		if c := r.byName[types.NamespacedName{Namespace: r.defaultNamespace, Name: name}]; c != nil {
			return Resolution{Limit: c}
		}
	}
	return Resolution{Missing: namespace + "/" + name}
}

// Named returns the name of the size that a pod requests by its label or, for
// names that are set where labels cannot be, its annotation; "" if by neither.
func Named(pod *corev1.Pod) string {
	if name := pod.Labels[v1alpha1.ResourceLimitLabel]; name != "" {
		return name
	}
	return pod.Annotations[v1alpha1.ResourceLimitLabel]
}

// Registries are the registries of one set of limits, by the default namespace
// that the caller has configured: profiles of schedulers can have one each.
// Not safe for concurrent use.
type Registries struct {
	all []*v1alpha1.ResourceLimit
	in  map[string]*Registry
}

// NewRegistries returns the registries of limits, which must not be changed
// afterwards.
func NewRegistries(all []*v1alpha1.ResourceLimit) *Registries {
	return &Registries{all: all, in: map[string]*Registry{}}
}

// With returns the registry with a default namespace, "" for none.
func (r *Registries) With(defaultNamespace string) *Registry {
	if known := r.in[defaultNamespace]; known != nil {
		return known
	}
	registry := NewRegistry(defaultNamespace)
	for _, l := range r.all {
		registry.Set(l)
	}
	r.in[defaultNamespace] = registry
	return registry
}
