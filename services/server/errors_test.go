// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAnObjectThatIsNotThereIsNoKindThatIsNotServed(t *testing.T) {
	resource := schema.GroupResource{Group: "berth.dev", Resource: "environments"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no object":             {apierrors.NewNotFound(resource, "x"), true},
		"no object, wrapped":    {fmt.Errorf("get: %w", apierrors.NewNotFound(resource, "x")), true},
		"no kind":               {apierrors.NewGenericServerResponse(404, "get", resource, "x", "404 page not found", 0, true), false},
		"no kind, of no name":   {apierrors.NewGenericServerResponse(404, "list", resource, "", "404 page not found", 0, true), false},
		"no error":              {nil, false},
		"another error":         {errors.New("not found"), false},
		"another of the server": {apierrors.NewConflict(resource, "x", errors.New("old")), false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, NotFound(tc.err))
			e := AsError(tc.err)
			assert.Equal(t, tc.want, e != nil && e.Code == codes.NotFound, "%v", e)
		})
	}
}

func TestRename(t *testing.T) {
	name := func(field string) string { return "spec." + field }
	require.NoError(t, Rename(nil, name))
	secret := errors.New("the secret")
	assert.Equal(t, secret, Rename(secret, name), "the server logs it as it is")
	assert.EqualError(t, Rename(Invalid(Violation{"cpu", "is negative"}), name), "INVALID_ARGUMENT: spec.cpu: is negative")
}
