// SPDX-License-Identifier: Apache-2.0

// Package kinds distinguishes a kind that the API server does not serve from an object that does not exist, and lists kinds.
package kinds

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Lister is the part of discovery that Serves needs.
type Lister interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Serves reports whether an API server has a resource, or a subresource such as "evictions/status". An error means that this is unknown.
func Serves(ctx context.Context, api Lister, of schema.GroupVersionResource) (bool, error) {
	list, err := api.ServerResourcesForGroupVersionWithContext(ctx, of.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == of.Resource }), nil
}

// NotServed reports whether an error means that the API server does not serve a kind.
func NotServed(err error) bool {
	var status apierrors.APIStatus
	missing := errors.As(err, &status) && apierrors.IsNotFound(err) &&
		(status.Status().Details == nil || status.Status().Details.Name == "")
	return meta.IsNoMatchError(err) || missing
}
