// SPDX-License-Identifier: Apache-2.0

// Package applyset applies parts of objects that are known from a cache: a status,
// a single field. A part is never applied to another object of the same name
// that was made meanwhile.
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

// Status applies the fields of a status that are set, in the name of owner, and
// returns the version that the object has then. Status is a pointer to a struct.
// The error is that of the API server, or nil if the object is gone.
func Status(ctx context.Context, c client.Client, kind schema.GroupVersionKind, o client.Object, status any, owner client.FieldOwner) (version string, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return "", fmt.Errorf("status of %s %s: %w", kind.Kind, client.ObjectKeyFromObject(o), err)
	}
	patch := part(kind, o)
	patch.Object["status"] = fields
	if err := c.Status().Patch(ctx, patch, client.Apply, owner, client.ForceOwnership); err != nil {
		return "", client.IgnoreNotFound(fmt.Errorf("write the status of %s %s: %w", kind.Kind, client.ObjectKeyFromObject(o), err))
	}
	return patch.GetResourceVersion(), nil
}

// Field applies one field of an object in the name of owner. Value is of the
// types of JSON: text, int64, float64, bool, maps and lists of them.
func Field(ctx context.Context, c client.Client, kind schema.GroupVersionKind, o client.Object, path []string, value any, owner client.FieldOwner) error {
	patch := part(kind, o)
	if err := unstructured.SetNestedField(patch.Object, value, path...); err != nil {
		return fmt.Errorf("set %s: %w", strings.Join(path, "."), err)
	}
	if err := c.Patch(ctx, patch, client.Apply, owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("set %s of %s %s: %w", strings.Join(path, "."), kind.Kind, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// part names an object and nothing of it. With the UID the API server refuses
// what was meant for another one.
func part(kind schema.GroupVersionKind, o client.Object) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{}}
	p.SetGroupVersionKind(kind)
	p.SetNamespace(o.GetNamespace())
	p.SetName(o.GetName())
	p.SetUID(o.GetUID())
	return p
}
