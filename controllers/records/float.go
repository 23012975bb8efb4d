// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/kube/applyset"
)

// FloatOwner is who sets the fields that follow what is measured.
const FloatOwner = "berth-deployments-nfr"

// hold keeps a field as it is when FieldOwner is about to apply the object
// without it: a field that no one owns any more would fall back to its default.
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
	return applyset.Field(ctx, r.Client, want.GroupVersionKind(), live, path, value, FloatOwner)
}
