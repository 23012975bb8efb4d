// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// plainly is an error in words of the cluster: which of many requests did not reach the API server, and on which address, is of no use to
// the user of a page. What the API server answered is shown as it is.
func plainly(err error) string {
	_, request := errors.AsType[*url.Error](err)
	_, connection := errors.AsType[net.Error](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return "the API server does not accept your credentials any more: sign in again"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), apierrors.IsTimeout(err):
		return "the API server did not respond in time"
	case request, connection:
		return "the API server cannot be reached"
	}
	return err.Error()
}
