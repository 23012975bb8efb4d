// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// fieldOwner is who sets the fields, as server-side apply knows it.
const fieldOwner = "kubectl-berth-import"

// apply creates or changes a limit by server-side apply. It returns what the API server has then, and in which way that differs from
// before, as kubectl calls it. A field that another owner has set to another value is an error, unless force is set.
func apply(ctx context.Context, c client.Client, limit *v1alpha1.ResourceLimit, force bool) (
	_ *unstructured.Unstructured, change string, err error,
) {
	wanted, err := limitObject(limit)
	if err != nil {
		return nil, "", err
	}
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(wanted.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(limit), before)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return nil, "", err
	}
	var options []client.PatchOption
	if force {
		options = append(options, client.ForceOwnership)
	}
	//nolint:staticcheck // its successor takes generated types or unstructured objects
	if err := c.Patch(ctx, wanted, client.Apply, options...); err != nil {
		return nil, "", err
	}
	switch {
	case absent:
		return wanted, "created", nil
	case equality.Semantic.DeepEqual(settled(before), settled(wanted)):
		return wanted, "unchanged", nil
	}
	return wanted, "configured", nil
}

// settled is an object without what says only when it was written: a dry run has that of a write that is not made.
func settled(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	out.SetResourceVersion("")
	managed := out.GetManagedFields()
	for i := range managed {
		managed[i].Time = nil
	}
	out.SetManagedFields(managed)
	return out
}

// limitObject is a limit with what is applied of it and no more.
func limitObject(limit *v1alpha1.ResourceLimit) (*unstructured.Unstructured, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&limit.Spec)
	if err != nil {
		return nil, fmt.Errorf("ResourceLimit %s/%s: %w", limit.Namespace, limit.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("ResourceLimit"))
	u.SetNamespace(limit.Namespace)
	u.SetName(limit.Name)
	u.SetLabels(limit.Labels)
	return u, nil
}
