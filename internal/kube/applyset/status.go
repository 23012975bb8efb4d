// SPDX-License-Identifier: Apache-2.0

// Package applyset applies the objects of a parent with server-side apply, and prunes those that are not desired any more. It
// also applies parts of objects that are known from a cache: a status, or a single field. A part is never applied to another
// object of the same name that was created meanwhile.
package applyset

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apply is server-side apply of an object. The client has methods of their own for it now, which take other types.
var apply = client.Apply //nolint:staticcheck // see above

// StatusOption changes what Status applies.
type StatusOption func(patch *unstructured.Unstructured, o client.Object)

// OptimisticLock makes Status fail with a conflict if the object has changed since it was read.
func OptimisticLock(patch *unstructured.Unstructured, o client.Object) {
	patch.SetResourceVersion(o.GetResourceVersion())
}

// Status applies the fields of a status that are set, as owner, and returns the resource version that the object has then. A
// field that owner has applied before and that is not set any more is removed. Status is a pointer to a struct. The error is that
// of the API server, or nil if the object is gone.
func Status(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, o client.Object, status any, owner client.FieldOwner,
	opts ...StatusOption,
) (version string, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return "", fmt.Errorf("status of %s %s: %w", kind.Kind, client.ObjectKeyFromObject(o), err)
	}
	patch := part(kind, o)
	for _, opt := range opts {
		opt(patch, o)
	}
	patch.Object["status"] = fields
	if err := c.Status().Patch(ctx, patch, apply, owner, client.ForceOwnership); err != nil {
		return "", client.IgnoreNotFound(fmt.Errorf("write the status of %s %s: %w", kind.Kind, client.ObjectKeyFromObject(o), err))
	}
	return patch.GetResourceVersion(), nil
}

// Field applies one field of an object as owner. Value is of the types of JSON: string, int64, float64, bool, maps and lists of
// them.
func Field(
	ctx context.Context, c client.Client, kind schema.GroupVersionKind, o client.Object, path []string, value any, owner client.FieldOwner,
) error {
	patch := part(kind, o)
	if err := unstructured.SetNestedField(patch.Object, value, path...); err != nil {
		return fmt.Errorf("set %s: %w", strings.Join(path, "."), err)
	}
	if err := c.Patch(ctx, patch, apply, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("set %s of %s %s: %w", strings.Join(path, "."), kind.Kind, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// part identifies an object and has none of its fields. Because of the UID the API server rejects it for another object of the
// same name.
func part(kind schema.GroupVersionKind, o client.Object) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{}}
	p.SetGroupVersionKind(kind)
	p.SetNamespace(o.GetNamespace())
	p.SetName(o.GetName())
	p.SetUID(o.GetUID())
	return p
}
