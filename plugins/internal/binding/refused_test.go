// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A refusal is an answer after which nothing was done for certain.
func TestRefused(t *testing.T) {
	pods := corev1.Resource("pods")
	for _, err := range []error{
		apierrors.NewConflict(pods, "a", errors.New("bound")), apierrors.NewNotFound(pods, "a"), apierrors.NewForbidden(pods, "a", nil),
		fmt.Errorf("bind: %w", apierrors.NewTooManyRequests("later", 1)),
	} {
		assert.True(t, Refused(err), "%v", err)
	}
	for _, err := range []error{
		context.DeadlineExceeded, io.ErrUnexpectedEOF, errors.New("stream error"), apierrors.NewInternalError(errors.New("etcd")),
		apierrors.NewTimeoutError("slow", 1), apierrors.NewServerTimeout(pods, "create", 1), apierrors.NewServiceUnavailable("no"),
	} {
		assert.False(t, Refused(err), "%v", err)
	}
}
