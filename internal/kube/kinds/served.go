// SPDX-License-Identifier: Apache-2.0

// Package kinds distinguishes a kind that the API server does not serve from an object that does not exist, and lists kinds.
package kinds

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// NotServed reports whether an error means that the API server does not serve a kind.
func NotServed(err error) bool {
	var status apierrors.APIStatus
	missing := errors.As(err, &status) && apierrors.IsNotFound(err) &&
		(status.Status().Details == nil || status.Status().Details.Name == "")
	return meta.IsNoMatchError(err) || missing
}
