// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
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

// correlationOf returns the correlation ID of a call. One that cannot be logged unchanged is not used, and neither are several of
// them: a call does not fail because of its logs. The problem is the reason, for the caller.
func correlationOf(r *http.Request) (id, problem string) {
	values := r.Header.Values(correlationHeader)
	switch {
	case len(values) == 0:
		return "", ""
	case len(values) > 1:
		problem = fmt.Sprintf("is given %d times", len(values))
	case len(values[0]) > maxCorrelation:
		problem = fmt.Sprintf("has %d bytes, and may have %d", len(values[0]), maxCorrelation)
	case strings.ContainsFunc(values[0], func(c rune) bool { return c < ' ' || c > '~' }):
		problem = "has other characters than printable ASCII"
	default:
		return strings.TrimSpace(values[0]), ""
	}
	return "", strings.ToLower(correlationHeader) + ": " + problem + "; it is not used"
}

// Correlation returns the correlation ID of the call of ctx, "" if there is none: the x-correlation-id of its metadata
// or header. The server logs it and returns it to the caller.
func Correlation(ctx context.Context) string { return callOf(ctx).correlation }
