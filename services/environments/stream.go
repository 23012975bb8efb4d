// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/services/server"
)

// serveLogs answers GetEnvironmentLogs.
func serveLogs(srv any, stream grpc.ServerStream) error {
	f := srv.(*front)
	id, err := f.logs(stream)
	if err == nil {
		return nil
	}
	e := server.AsError(err)
	if _, ours := errors.AsType[*server.Error](err); !ours && e.Code == codes.Internal {
		f.core.log.Error(err, "RPC failed", "method", "GetEnvironmentLogs", "environment", id)
	}
	return e.GRPCStatus().Err()
}

// logs returns the id of the environment too, once it is known.
func (f *front) logs(stream grpc.ServerStream) (id string, err error) {
	ctx := stream.Context()
	namespace, err := f.namespaceOf(ctx)
	if err != nil {
		return "", err
	}
	var req schedulerv1.GetEnvironmentLogsRequest
	if err := receive(stream, &req); err != nil {
		return "", err
	}
	return req.GetId(), f.core.logs(ctx, namespace, &req,
		func(m *schedulerv1.GetEnvironmentLogsResponse) error { return stream.SendMsg(m) })
}

// maxLogsRequest bounds a request for logs, in bytes: it has an id and the name of a component.
const maxLogsRequest = 64 << 10

// receive reads the request of a stream as those of other rpcs are read, with the names of fields that are wrong.
func receive(stream grpc.ServerStream, req *schedulerv1.GetEnvironmentLogsRequest) error {
	var raw rawRequest
	if err := stream.RecvMsg(&raw); err != nil {
		return err
	}
	if n := len(raw.bytes); n > maxLogsRequest {
		return refused("request", fmt.Sprintf("is %d bytes, and may be %d", n, maxLogsRequest))
	}
	return server.Decode(raw.bytes, req)
}

// rawRequest is a request that is not decoded yet. To the library it is a message of the old kind, which decodes itself: of
// one that it cannot decode it would say INTERNAL before anybody else could say more.
type rawRequest struct{ bytes []byte }

// Reset is what a message has.
func (r *rawRequest) Reset() { *r = rawRequest{} }

// String is what a message has.
func (r *rawRequest) String() string { return "a request" }

// ProtoMessage is what a message has.
func (*rawRequest) ProtoMessage() {}

// Unmarshal keeps a copy: the buffer is the library's.
func (r *rawRequest) Unmarshal(b []byte) error {
	r.bytes = bytes.Clone(b)
	return nil
}
