// SPDX-License-Identifier: Apache-2.0

// Package perscheduler keeps what the profiles of one scheduler share: a plugin
// is made once per profile, and its caches are to be filled once per scheduler.
package perscheduler

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
)

// Factory creates a plugin for a profile. It is the PluginFactory of kube-scheduler.
type Factory = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)

// Args returns the arguments of a plugin, which are valid.
func Args[T any](name string, obj runtime.Object, validate func(*field.Path, *T) field.ErrorList) (*T, error) {
	args, ok := any(obj).(*T)
	if !ok {
		return nil, fmt.Errorf("want args to be of type %s, got %T", reflect.TypeFor[T]().Name(), obj)
	}
	return args, validate(field.NewPath("pluginConfig", name, "args"), args).ToAggregate()
}

// Parts are the shared parts of a plugin, of kind P, of several schedulers.
type Parts[P any] struct {
	// mu is held while a part is created.
	mu    sync.Mutex
	parts Values[P]
}

// Join returns the shared part for a profile: created for the first profile of
// the scheduler, and for the others, which have to agree with it, the same one.
// It is dropped when ctx, the scheduler's, ends.
func (s *Parts[P]) Join(ctx context.Context, handle fwk.Handle, create func() (P, error), agree func(P) error) (P, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if part, ok := s.parts.Get(handle); ok {
		return part, agree(part)
	}
	part, err := create()
	if err == nil {
		s.parts.Set(ctx, handle, part)
	}
	return part, err
}

// Values are values that the plugin of one name has for schedulers, and plugins of other names read. A profile creates its
// plugins in any order, so a value is read when it is needed, not when a plugin is created.
type Values[V any] struct {
	mu sync.Mutex
	// A scheduler is identified by its informer factory, which all its profiles
	// share and no other scheduler has.
	byFactory map[informers.SharedInformerFactory]V
}

// Set sets the value of a scheduler. It is dropped when ctx, the scheduler's, ends.
func (s *Values[V]) Set(ctx context.Context, handle fwk.Handle, value V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byFactory == nil {
		s.byFactory = map[informers.SharedInformerFactory]V{}
	}
	id := handle.SharedInformerFactory()
	s.byFactory[id] = value
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byFactory, id)
	})
}

// Get returns the value of a scheduler, and whether there is one. A nil Values has none.
func (s *Values[V]) Get(handle fwk.Handle) (value V, ok bool) {
	if s == nil {
		return value, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok = s.byFactory[handle.SharedInformerFactory()]
	return value, ok
}
