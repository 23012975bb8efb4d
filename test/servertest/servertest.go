// SPDX-License-Identifier: Apache-2.0

// Package servertest has what the tests of the services share.
package servertest

import (
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"berth.dev/berth/services/server"
)

// RequireInvalid demands that an error is the caller's, and names a field of the request. It returns the error.
func RequireInvalid(t require.TestingT, err error) *server.Error {
	e := server.AsError(err)
	require.NotNil(t, e)
	require.Equal(t, codes.InvalidArgument, e.Code, "%v", err)
	require.NotEmpty(t, e.Violations)
	for _, v := range e.Violations {
		require.NotEmpty(t, v.Field)
		require.NotEmpty(t, v.Description)
	}
	require.NotNil(t, e.GRPCStatus())
	return e
}
