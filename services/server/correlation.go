// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"strings"
)

const (
	// correlationHeader, metadata in gRPC, is the correlation ID by which a caller finds a call in logs. It is returned
	// to the caller.
	correlationHeader = "X-Correlation-Id"
	// maxCorrelation is its maximum length, in bytes.
	maxCorrelation = 256
)

// correlationOf returns the correlation ID of a call. One that cannot be logged unchanged is ignored, and so are
// several of them: a call does not fail because of its logs.
func correlationOf(r *http.Request) string {
	values := r.Header.Values(correlationHeader)
	if len(values) != 1 || len(values[0]) > maxCorrelation {
		return ""
	}
	if strings.ContainsFunc(values[0], func(c rune) bool { return c < ' ' || c > '~' }) {
		return ""
	}
	return strings.TrimSpace(values[0])
}

// Correlation returns the correlation ID of the call of ctx, "" if there is none: the x-correlation-id of its metadata
// or header. The server logs it and returns it to the caller.
func Correlation(ctx context.Context) string { return callOf(ctx).correlation }
