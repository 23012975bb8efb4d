// SPDX-License-Identifier: Apache-2.0

// Package registry decides which SchedulingPolicy governs a pod. It reads no API.
package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/rules"
)

// MaxPerNamespace is the number of policies of a namespace that govern pods, the oldest ones: each costs every pod of the
// namespace a match of its labels. Newer ones are not accepted.
const MaxPerNamespace = 100

// Policy is a compiled SchedulingPolicy. It is shared and must not be changed.
type Policy struct {
	Object *v1alpha1.SchedulingPolicy
	Rules  *rules.Rules
	// Err is why the policy governs no pod, nil if it is valid.
	Err error

	selector labels.Selector
}

// Compile compiles a policy, which must not be changed afterwards.
func Compile(object *v1alpha1.SchedulingPolicy) *Policy {
	p := &Policy{Object: object}
	var err error
	if p.Rules, err = rules.Compile(&object.Spec.SchedulingRules); err != nil {
		p.Err = errors.New("spec." + strings.ReplaceAll(err.Error(), "\n", "; spec.")) // an error a line
		return p
	}
	if p.selector, err = metav1.LabelSelectorAsSelector(object.Spec.PodSelector.AsLabelSelector()); err != nil {
		p.Err = fmt.Errorf("spec.podSelector: %w", err)
	}
	return p
}

// Selects reports whether the policy selects pods with these labels.
func (p *Policy) Selects(set map[string]string) bool {
	return p.Err == nil && p.selector.Matches(labels.Set(set))
}

// OldestFirst compiles the policies of a namespace, in the order in which they govern pods.
func OldestFirst(objects []*v1alpha1.SchedulingPolicy) []*Policy {
	policies := make([]*Policy, len(objects))
	for i, object := range objects {
		policies[i] = Compile(object)
	}
	slices.SortFunc(policies, Oldest)
	return policies
}

// Oldest orders policies of a namespace: oldest first, then by name.
func Oldest(a, b *Policy) int {
	return cmp.Or(a.Object.CreationTimestamp.Compare(b.Object.CreationTimestamp.Time), cmp.Compare(a.Object.Name, b.Object.Name))
}

// Governing returns the policy of a list, oldest first, that governs pods with these labels, nil if none does.
func Governing(oldestFirst []*Policy, set map[string]string) *Policy {
	for _, p := range oldestFirst[:min(len(oldestFirst), MaxPerNamespace)] {
		if p.Selects(set) {
			return p
		}
	}
	return nil
}

// Registry holds the policies of a cluster. Safe for concurrent use.
type Registry struct {
	mu sync.RWMutex
	// of are the policies of a namespace, oldest first.
	of map[string][]*Policy
}

// New returns an empty registry.
func New() *Registry { return &Registry{of: map[string][]*Policy{}} }

// Set adds or replaces a policy, which must not be changed afterwards. It reports whether the rules for pods can differ: a
// new status does not count.
func (r *Registry) Set(object *v1alpha1.SchedulingPolicy) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.of[object.Namespace]
	at := index(list, object.Name)
	if at >= 0 {
		if known := list[at].Object; known.UID == object.UID && known.Generation == object.Generation && object.Generation > 0 {
			return false
		}
		list = slices.Delete(slices.Clone(list), at, at+1)
	}
	p := Compile(object)
	at, _ = slices.BinarySearchFunc(list, p, Oldest)
	r.of[object.Namespace] = slices.Insert(slices.Clip(list), at, p)
	return true
}

// Delete removes a policy.
func (r *Registry) Delete(namespace, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.of[namespace]
	if at := index(list, name); at >= 0 {
		list = slices.Delete(slices.Clone(list), at, at+1)
	}
	if len(list) == 0 {
		delete(r.of, namespace)
		return
	}
	r.of[namespace] = list
}

func index(list []*Policy, name string) int {
	return slices.IndexFunc(list, func(p *Policy) bool { return p.Object.Name == name })
}

// For returns the policy that governs a pod, nil if none does.
func (r *Registry) For(pod *corev1.Pod) *Policy { return Governing(r.In(pod.Namespace), pod.Labels) }

// In returns the policies of a namespace, oldest first. The list must not be changed.
func (r *Registry) In(namespace string) []*Policy {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of[namespace]
}
