// SPDX-License-Identifier: Apache-2.0

// Package wire has clients of the published revisions of interfaces that Berth serves, generated from protos that were
// written from the contract and not from Berth's: anyform and mapform of mcp.orchestrator.v1, oaasplan and oaashead of
// oaas.deployment and oaas.health, oaasclass and oaasunit of the lists that oaas.deployment had between these two.
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
	return c.ClientConnInterface.Invoke(ctx, served(method), args, reply, opts...)
}

// NewStream begins a call with many messages.
func (c Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(ctx, desc, served(method), opts...)
}

func served(method string) string {
	for _, prefix := range []string{"anyform.", "mapform.", "oaasplan.", "oaashead.", "oaasclass.", "oaasunit."} {
		method = strings.Replace(method, "/"+prefix, "/", 1)
	}
	return method
}
