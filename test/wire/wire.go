// SPDX-License-Identifier: Apache-2.0

// Package wire has clients of mcp.orchestrator.v1 in its two published wire forms, generated from protos that were written
// from the contract and not from Berth's: anyform and mapform.
package wire

import (
	"context"
	"strings"

	"google.golang.org/grpc"
)

// Conn takes the prefixes that keep the generated packages apart off the paths of calls.
type Conn struct{ grpc.ClientConnInterface }

// Invoke makes a call.
func (c Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	for _, prefix := range []string{"anyform.", "mapform."} {
		method = strings.Replace(method, "/"+prefix, "/", 1)
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}
