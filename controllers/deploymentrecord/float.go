// SPDX-License-Identifier: Apache-2.0

package deploymentrecord

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FloatOwner is who sets the fields that follow what is measured.
const FloatOwner = "berth-deployments-nfr"

// hold keeps a field as it is when FieldOwner is about to apply the object
// without it: a field that nobody owns any more would fall back to its default.
func (r *Reconciler) hold(ctx context.Context, want *unstructured.Unstructured, path []string, have *child) error {
	if path == nil || have == nil {
		return nil
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("read %s %s: %w", want.GetKind(), want.GetName(), err))
	}
	value, there, err := unstructured.NestedFieldNoCopy(live.Object, path...)
	if err != nil || !there {
		return err
	}
	return set(ctx, r.Client, want.GroupVersionKind(), live, path, value)
}

// set applies one field of an object as FloatOwner.
func set(ctx context.Context, c client.Client, kind schema.GroupVersionKind, o client.Object, path []string, value any) error {
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	patch.SetGroupVersionKind(kind)
	patch.SetNamespace(o.GetNamespace())
	patch.SetName(o.GetName())
	patch.SetUID(o.GetUID())
	if err := unstructured.SetNestedField(patch.Object, value, path...); err != nil {
		return fmt.Errorf("set %v: %w", path, err)
	}
	if err := c.Patch(ctx, patch, client.Apply, client.FieldOwner(FloatOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("set %s of %s %s: %w", path[len(path)-1], kind.Kind, o.GetName(), err)
	}
	return nil
}
