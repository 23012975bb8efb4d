// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"strings"
)

const (
	// correlationHeader, metadata in gRPC, is what a caller calls a call, to find it again in logs. It is sent back.
	correlationHeader = "X-Correlation-Id"
	// maxCorrelation is how long it may be, in bytes.
	maxCorrelation = 256
)

// correlationOf returns the caller's name of a call. What cannot be written down as it is counts as none, and so do several
// of them: a call does not fail for the sake of its logs.
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

// Correlation returns what the caller of ctx calls the call, "" if they have no name for it: the x-correlation-id of its
// metadata or header. The server itself writes it into the log and sends it back.
func Correlation(ctx context.Context) string { return callOf(ctx).correlation }
