// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// result is what an object of another system becomes: an object of Berth, a reason to skip it, or an error.
type result struct {
	// Kind and Key, "namespace/name", are those of the object of the other system.
	Kind, Key string
	// Object has the fields that are applied and no others.
	Object *unstructured.Unstructured
	// Notes describe what the object of Berth cannot hold.
	Notes   []string
	Skipped string
	Err     error
}

// from returns the object of the other system as messages name it.
func (r *result) from() string { return r.Kind + " " + r.Key }

// convert parses objects in the order of their namespaces and names. All results are in the given namespace, or, if that is "", each
// in that of its object.
func convert(objects []*unstructured.Unstructured, namespace string, parse func(*unstructured.Unstructured) result) []result {
	sorted := slices.SortedFunc(slices.Values(objects), func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()),
			cmp.Compare(a.GetKind(), b.GetKind()))
	})
	first := map[types.NamespacedName]*result{}
	results := make([]result, len(sorted))
	for i, u := range sorted {
		r := &results[i]
		if u.GetDeletionTimestamp() != nil {
			*r = result{Skipped: "it is being deleted"}
		} else {
			*r = parse(u)
		}
		r.Kind, r.Key = u.GetKind(), u.GetNamespace()+"/"+u.GetName()
		if r.Object == nil {
			continue
		}
		r.Object.SetNamespace(cmp.Or(namespace, u.GetNamespace()))
		key := client.ObjectKeyFromObject(r.Object)
		if first[key] == nil {
			first[key] = r
			continue
		}
		r.repeats(first[key])
	}
	return results
}

// repeats handles an object that defines what another one defines.
func (r *result) repeats(first *result) {
	same := equality.Semantic.DeepEqual(r.Object.Object, first.Object.Object)
	object := r.Object.GetKind() + " " + r.Object.GetNamespace() + "/" + r.Object.GetName()
	r.Object = nil
	if same {
		r.Skipped = fmt.Sprintf("it defines the same %s as %s", object, first.from())
		return
	}
	r.Err = fmt.Errorf("%s: it defines %s differently from %s", r.from(), object, first.from())
}

// applied returns an object of Berth with what is applied of it and no more.
func applied(kind string, from client.Object, spec any) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", kind, from.GetNamespace(), from.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	u.SetNamespace(from.GetNamespace())
	u.SetName(from.GetName())
	u.SetLabels(from.GetLabels())
	u.SetAnnotations(from.GetAnnotations())
	return u, nil
}
