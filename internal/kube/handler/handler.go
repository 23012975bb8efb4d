// SPDX-License-Identifier: Apache-2.0

// Package handler handles the events of an informer by functions for its kind.
package handler

import "k8s.io/client-go/tools/cache"

// Funcs handles the events of the objects of a kind. A field that is nil is not called, but without Update, Add is called
// for an object that changed.
type Funcs[T any] struct {
	Add    func(obj T)
	Update func(old, obj T)
	// Delete is also called for a deletion that the informer missed.
	Delete func(obj T)
}

var _ cache.ResourceEventHandler = Funcs[any]{}

// OnAdd implements cache.ResourceEventHandler.
func (f Funcs[T]) OnAdd(obj any, _ bool) {
	if f.Add != nil {
		f.Add(obj.(T))
	}
}

// OnUpdate implements cache.ResourceEventHandler.
func (f Funcs[T]) OnUpdate(old, obj any) {
	if f.Update == nil {
		f.OnAdd(obj, false)
		return
	}
	f.Update(old.(T), obj.(T))
}

// OnDelete implements cache.ResourceEventHandler. After a deletion that was missed the informer passes the last state that
// it has of the object.
func (f Funcs[T]) OnDelete(obj any) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	if typed, ok := obj.(T); ok {
		f.Delete(typed)
	}
}
