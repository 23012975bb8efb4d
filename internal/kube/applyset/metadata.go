// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// SetFinalizer adds a finalizer to an object or removes it, as set does, unless the object has changed meanwhile or is gone. It is stale
// then, and has to be reconciled again. Otherwise the object is as it was written. Nothing is written if set changes nothing.
func SetFinalizer(
	ctx context.Context, c client.Client, o client.Object, finalizer string, set func(client.Object, string) bool,
) (stale bool, err error) {
	key := client.ObjectKeyFromObject(o)
	if !set(o, finalizer) {
		return false, nil
	}
	// A tenant's object may have a megabyte: to compare two of them costs more than all else that is done with it.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"finalizers": o.GetFinalizers(), "resourceVersion": o.GetResourceVersion(),
	}})
	if err != nil {
		return false, fmt.Errorf("write the finalizers of %T %s: %w", o, key, err)
	}
	err = c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true, nil // the next reconciliation finds it gone
	case err != nil:
		return false, fmt.Errorf("write the finalizers of %T %s: %w", o, key, err)
	}
	return false, nil
}

// SpecOrMetadataChanged lets changes of an object's spec or metadata pass. A controller writes its status and its finalizer
// itself: a reconciliation right after that would find a cache that does not have its objects yet. What others write into the
// status is corrected at the next resync.
func SpecOrMetadataChanged(finalizer string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		a, b := e.ObjectOld, e.ObjectNew
		return a.GetGeneration() != b.GetGeneration() || a.GetUID() != b.GetUID() ||
			(a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil) ||
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
		return nil, fmt.Errorf("%T is not a list", o)
	}
	return list, nil
}

func eachItem(list client.ObjectList, do func(client.Object) error) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", item)
		}
		return do(o)
	})
}

// Requests returns a request for every item of a list, none if it cannot be read. List is empty.
func Requests(
	ctx context.Context, reader client.Reader, list client.ObjectList, where ...client.ListOption,
) (requests []reconcile.Request) {
	if err := reader.List(ctx, list, append(where, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the objects to reconcile: they are reconciled at the next resync")
		return nil
	}
	_ = eachItem(list, func(o client.Object) error {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		return nil
	})
	return requests
}

// Shorten cuts a text to a number of bytes, because the API bounds its length, and ends it with three dots then.
func Shorten(text string, length int) string {
	if len(text) <= length {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:length-3], "") + "..."
}
