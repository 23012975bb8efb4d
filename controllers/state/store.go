// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/internal/mix/clusterstate"
)

// store is where a reflector puts what it reads: it keeps nothing, but hands it
// on. A reflector calls it from one goroutine.
type store struct {
	set     func(o any)
	remove  func(o metav1.Object)
	replace func(all []any)
	// listed is set once the first list has been handed on, relists counts those after it.
	listed  atomic.Bool
	relists atomic.Int32
	// away is set while the API server cannot be read.
	away atomic.Bool
}

var _ cache.ReflectorStore = &store{}

func (s *store) Add(o any) error {
	s.set(o)
	return nil
}

func (s *store) Update(o any) error { return s.Add(o) }

func (s *store) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	s.remove(m)
	return nil
}

func (s *store) Replace(all []any, _ string) error {
	s.replace(all)
	if s.listed.Swap(true) {
		s.relists.Add(1)
	}
	return nil
}

func (s *store) Resync() error { return nil }

// stripped is a list of any kind whose items have lost what the cluster state does not
// keep. It only travels from the list function to the store.
type stripped struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object.
func (s *stripped) DeepCopyObject() runtime.Object {
	c := *s
	return &c
}

// add takes over what is left of the items of a page.
func (s *stripped) add(page runtime.Object, keep func(runtime.Object) runtime.Object) (metav1.ListInterface, error) {
	m, err := meta.ListAccessor(page)
	if err != nil {
		return nil, err
	}
	s.ResourceVersion = m.GetResourceVersion()
	err = meta.EachListItem(page, func(o runtime.Object) error {
		if kept := keep(o); kept != nil {
			s.Items = append(s.Items, kept)
		}
		return nil
	})
	return m, err
}

// strip returns a copy of a node or workload without what the cluster state does not keep, nil if it
// keeps nothing of the object. The copy holds on to no memory of the page.
func strip(o runtime.Object) runtime.Object {
	switch o := o.(type) {
	case *corev1.Node:
		kept := o.DeepCopy()
		kept.Status.Images, kept.ManagedFields = nil, nil
		return kept
	case metav1.Object:
		if kept := clusterstate.Strip(o); kept != nil {
			return kept
		}
	}
	return nil
}
