// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strconv"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
)

// CodeName returns the name of a code in its specification, which differs from the library's. That of an unknown code is UNKNOWN.
func CodeName(c codes.Code) string {
	if name, known := rpccode.Code_name[int32(c)]; known { //nolint:gosec // a code is a small number
		return name
	}
	return rpccode.Code_UNKNOWN.String()
}

// codeOfText parses a grpc-status. An invalid one is UNKNOWN.
func codeOfText(text string) codes.Code {
	n, err := strconv.ParseUint(text, 10, 8)
	if _, known := rpccode.Code_name[int32(n)]; err != nil || !known {
		return codes.Unknown
	}
	return codes.Code(n)
}

// httpStatuses are the HTTP statuses of the codes. The three codes about a state are conflicts.
var httpStatuses = map[codes.Code]int{
	codes.OK: http.StatusOK, codes.Canceled: 499, codes.InvalidArgument: http.StatusBadRequest,
	codes.DeadlineExceeded: http.StatusGatewayTimeout, codes.NotFound: http.StatusNotFound,
	codes.AlreadyExists: http.StatusConflict, codes.PermissionDenied: http.StatusForbidden,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.FailedPrecondition: http.StatusConflict,
	codes.Aborted: http.StatusConflict, codes.OutOfRange: http.StatusBadRequest,
	codes.Unimplemented: http.StatusNotImplemented, codes.Unavailable: http.StatusServiceUnavailable,
	codes.Unauthenticated: http.StatusUnauthorized,
}

func (e *Error) httpStatus() int {
	if e.HTTPStatus != 0 {
		return e.HTTPStatus
	}
	if s, ok := httpStatuses[e.Code]; ok {
		return s
	}
	return http.StatusInternalServerError
}
