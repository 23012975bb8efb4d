// SPDX-License-Identifier: Apache-2.0

package registry

import "berth.dev/berth/apis/v1alpha1"

// Registries are the registries of one set of limits, by the default namespace
// that whoever asks has configured: profiles of schedulers can have one each.
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
