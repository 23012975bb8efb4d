// SPDX-License-Identifier: Apache-2.0

// Package store has the objects of a simulated cluster, in place of etcd and the watches of an API server.
package store

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Object is an object of the cluster. One that is in a store never changes: change a copy.
type Object interface {
	metav1.Object
	runtime.Object
}

// Store has objects by kind. It is for one goroutine at a time.
type Store struct {
	clock   clock.PassiveClock
	kinds   map[reflect.Type]*Informer
	version uint64
	created uint64
}

// New returns a store without an object.
func New(c clock.PassiveClock) *Store {
	s := &Store{clock: c, kinds: map[reflect.Type]*Informer{}}
	for _, k := range Kinds {
		s.kinds[reflect.TypeOf(k.Object)] = newInformer()
	}
	return s
}

// Of returns the informer of a kind. It panics for one that is not in Kinds.
func (s *Store) Of(o Object) *Informer {
	i := s.kinds[reflect.TypeOf(o)]
	if i == nil {
		panic(fmt.Sprintf("no store of %T", o))
	}
	return i
}

// Watch adds a handler of the objects of a kind.
func (s *Store) Watch(kind Object, h cache.ResourceEventHandler) {
	_, _ = s.Of(kind).AddEventHandler(h) // an Informer accepts every handler
}

// Factory returns a factory with the informers of the store. It is not to be started.
func (s *Store) Factory(client kubernetes.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, k := range Kinds {
		factory.InformerFor(k.Object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return s.Of(k.Object) })
	}
	return factory
}

// Create adds an object, with the UID, the time and the version that the API server would give it. Its times are in seconds, as there.
func (s *Store) Create(o Object) {
	s.created++
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", s.created)))
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(metav1.NewTime(s.clock.Now().Truncate(time.Second)))
	}
	o.SetGeneration(1)
	s.Update(o)
}

// Update replaces an object by another version of it.
func (s *Store) Update(o Object) {
	s.version++
	o.SetResourceVersion(strconv.FormatUint(s.version, 10))
	s.Of(o).put(o)
}

// Delete removes an object. It is a change, as in an API server.
func (s *Store) Delete(o Object) {
	s.version++
	s.Of(o).drop(o)
}

// Version returns the version of the last change.
func (s *Store) Version() string { return strconv.FormatUint(s.version, 10) }

// Changes returns the number of changes of all objects.
func (s *Store) Changes() uint64 { return s.version }

// Get returns an object, false if there is none. It is not to be changed.
func Get[T Object](s *Store, namespace, name string) (o T, found bool) {
	found = false
	object, exists, _ := s.Of(o).indexer.GetByKey(cache.NewObjectName(namespace, name).String())
	if exists {
		o, found = object.(T), true
	}
	return o, found
}

// List returns the objects of a namespace, or of all for "", by their names. They are not to be changed.
func List[T Object](s *Store, namespace string) (list []T) {
	var kind T
	for _, o := range s.ListOf(kind, namespace) {
		list = append(list, o.(T))
	}
	return list
}

// ListOf is List for the kind of an object. The list is not to be changed.
func (s *Store) ListOf(kind Object, namespace string) []Object {
	of := s.Of(kind)
	list, known := of.sorted[namespace]
	if !known {
		list = s.Selected(kind, namespace, func(Object) bool { return true })
		of.sorted[namespace] = list
	}
	return list
}

// Selected returns the objects of a kind and a namespace, all for "", that are as wanted, by their names.
func (s *Store) Selected(kind Object, namespace string, wanted func(Object) bool) (list []Object) {
	indexer := s.Of(kind).indexer
	var found []any
	if namespace == "" {
		found = indexer.List()
	} else {
		found, _ = indexer.ByIndex(cache.NamespaceIndex, namespace) // every informer has this index
	}
	for _, o := range found {
		if o := o.(Object); wanted(o) {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list
}
