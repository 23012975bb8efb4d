// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovery is the part of discovery that Serves needs.
type Discovery interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// Serves reports whether an API server has a resource, or a subresource such as "evictions/status". An error means that this is unknown.
func Serves(ctx context.Context, api Discovery, of schema.GroupVersionResource) (bool, error) {
	list, err := api.ServerResourcesForGroupVersionWithContext(ctx, of.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == of.Resource }), nil
}
