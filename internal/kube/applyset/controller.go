// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Finalizers writes what is different in an object that was read before, unless it is another one by now or gone. It is
// stale then, and has to be looked at again.
func Finalizers(ctx context.Context, c client.Client, before, after client.Object) (stale bool, err error) {
	err = c.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true, nil // if it is gone, that is what is found
	case err != nil:
		return false, fmt.Errorf("write the finalizers of %T %s: %w", before, client.ObjectKeyFromObject(before), err)
	}
	return false, nil
}

// AsksForMore lets changes of an object's spec or metadata pass. A controller writes its status and its finalizer itself: to
// evaluate again at once would find a cache that has not seen its objects yet. What others write into the status is put right at
// the next resync.
func AsksForMore(finalizer string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, b := e.ObjectOld, e.ObjectNew
		return a.GetGeneration() != b.GetGeneration() || a.GetUID() != b.GetUID() || (a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil) ||
			slices.Contains(a.GetFinalizers(), finalizer) && !slices.Contains(b.GetFinalizers(), finalizer) ||
			!maps.Equal(a.GetAnnotations(), b.GetAnnotations())
	}}
}

// ListOf returns an empty list of a kind.
func ListOf(kind client.Object, scheme *runtime.Scheme) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(kind, scheme)
	if err != nil {
		return nil, err
	}
	o, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, ok := o.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is no list", o)
	}
	return list, nil
}

// Metadata reads the metadata of the object that has the kind and name of another, nil if there is none.
func Metadata(ctx context.Context, c client.Reader, of *unstructured.Unstructured) (*metav1.PartialObjectMetadata, error) {
	have := &metav1.PartialObjectMetadata{}
	have.SetGroupVersionKind(of.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(of), have)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for %s %s: %w", of.GetKind(), client.ObjectKeyFromObject(of), err)
	}
	return have, nil
}

// Shorten cuts a text to so many bytes, as the API allows it, and says by three dots that it did.
func Shorten(text string, length int) string {
	if len(text) <= length {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:length-3], "") + "..."
}
