// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
)

// codeNames are the names of the codes in their specification, which differ from the library's.
var codeNames = map[codes.Code]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
	codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

func codeName(c codes.Code) string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return codeNames[codes.Unknown]
}

// codeOfText parses a grpc-status. An invalid one is UNKNOWN.
func codeOfText(text string) codes.Code {
	n, err := strconv.ParseUint(text, 10, 8)
	if _, known := codeNames[codes.Code(n)]; err != nil || !known {
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
