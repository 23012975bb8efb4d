// SPDX-License-Identifier: Apache-2.0

// Package registry decides which SchedulingPolicy governs a pod. It reads no API.
package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/policies/rules"
)

// MaxPerNamespace is the number of policies of a namespace that govern pods, the oldest ones. Newer ones are not accepted.
const MaxPerNamespace = 100

// Policy is a compiled SchedulingPolicy. It is shared and must not be changed.
type Policy struct {
	Object *v1alpha1.SchedulingPolicy
	Rules  *rules.Rules
	// Err is why the policy governs no pod, nil if it is valid.
	Err error

	selector *budget.Selector
}

// Compile compiles a policy, which must not be changed afterwards.
func Compile(object *v1alpha1.SchedulingPolicy) *Policy {
	p := &Policy{Object: object}
	var err error
	if p.Rules, err = rules.Compile(&object.Spec.SchedulingRules); err != nil {
		p.Err = errors.New("spec." + strings.ReplaceAll(err.Error(), "\n", "; spec.")) // an error a line
		return p
	}
	selector, err := metav1.LabelSelectorAsSelector(object.Spec.PodSelector.AsLabelSelector())
	if err != nil {
		p.Err = fmt.Errorf("spec.podSelector: %w", err)
		return p
	}
	p.selector = budget.CompileSelector(selector)
	return p
}

// Selects reports whether the policy selects pods with these labels.
func (p *Policy) Selects(set map[string]string) bool {
	return p.Err == nil && p.selector.Matches(set)
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
func Oldest(a, b *Policy) int { return older(a.Object, b.Object) }

func older(a, b *v1alpha1.SchedulingPolicy) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Affordable returns the policies of a list, oldest first, that can govern pods: MaxPerNamespace of them at most, whose
// selectors cost budget.MaxSelectorCost at most.
func Affordable(oldestFirst []*Policy) []*Policy {
	n := budget.Affordable(oldestFirst, func(p *Policy) *budget.Selector { return p.selector })
	return oldestFirst[:min(n, MaxPerNamespace)]
}

// Governing returns the policy of a list, oldest first, that governs pods with these labels, nil if none does.
func Governing(oldestFirst []*Policy, set map[string]string) *Policy {
	for _, p := range Affordable(oldestFirst) {
		if p.Selects(set) {
			return p
		}
	}
	return nil
}

// Registry holds the policies of a cluster. Safe for concurrent use.
type Registry struct{ policies *budget.Selectors[*Policy] }

// New returns an empty registry.
func New() *Registry { return &Registry{policies: budget.NewSelectors[*Policy](MaxPerNamespace)} }

// Of returns a registry of the policies that can govern pods: the oldest ones of each namespace. Newer ones are not compiled, and the order
// is made once: a namespace can have thousands.
func Of(objects []*v1alpha1.SchedulingPolicy) *Registry {
	r := New()
	sorted := slices.SortedFunc(slices.Values(objects), func(a, b *v1alpha1.SchedulingPolicy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), older(a, b))
	})
	for i, o := range sorted {
		if i < MaxPerNamespace || sorted[i-MaxPerNamespace].Namespace != o.Namespace {
			r.Set(o)
		}
	}
	return r
}

// Set adds or replaces a policy, which must not be changed afterwards. It reports whether the rules for pods can differ: a
// new status does not count.
func (r *Registry) Set(object *v1alpha1.SchedulingPolicy) (changed bool) {
	known, found := r.policies.Get(object.Namespace, object.Name)
	if found && known.Object.UID == object.UID && known.Object.Generation == object.Generation && object.Generation > 0 {
		return false
	}
	p := Compile(object)
	r.policies.Set(object.Namespace, &budget.Entry[*Policy]{
		Name: object.Name, Created: object.CreationTimestamp.Time, Selector: p.selector, Object: p,
	})
	return true
}

// Delete removes a policy.
func (r *Registry) Delete(namespace, name string) { r.policies.Delete(namespace, name) }

// For returns the policy that governs a pod, nil if none does.
func (r *Registry) For(pod *corev1.Pod) *Policy {
	p, _ := r.policies.Oldest(pod.Namespace, pod.Labels)
	return p
}

// In returns the policies of a namespace, oldest first.
func (r *Registry) In(namespace string) []*Policy {
	entries := r.policies.In(namespace)
	list := make([]*Policy, len(entries))
	for i, e := range entries {
		list[i] = e.Object
	}
	return list
}
