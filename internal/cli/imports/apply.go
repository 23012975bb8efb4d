// SPDX-License-Identifier: Apache-2.0

package imports

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the field manager in server-side apply.
const fieldOwner = "kubectl-berth-import"

// apply creates or changes an object by server-side apply, and makes it what the API server has then. It returns in which way that
// differs from before, as kubectl calls it. A field that another owner has set to another value is an error, unless force is set.
func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured, force bool) (change string, err error) {
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(object.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(object), before)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return "", err
	}
	var options []client.PatchOption
	if force {
		options = append(options, client.ForceOwnership)
	}
	//nolint:staticcheck // its successor takes generated types or unstructured objects
	if err := c.Patch(ctx, object, client.Apply, options...); err != nil {
		return "", err
	}
	switch {
	case absent:
		return "created", nil
	case equality.Semantic.DeepEqual(withoutWrite(before), withoutWrite(object)):
		return "unchanged", nil
	}
	return "configured", nil
}

// withoutWrite is an object without the fields of its last write: a dry run has that of a write that is not made.
func withoutWrite(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	out.SetResourceVersion("")
	managed := out.GetManagedFields()
	for i := range managed {
		managed[i].Time = nil
	}
	out.SetManagedFields(managed)
	return out
}
