// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"
)

// maxSendBytes is the maximum size of an answer: a page of the largest objects is smaller.
const maxSendBytes = 64 << 20

func (s *Server) newGRPC() *grpc.Server {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2("proto")}),
		grpc.MaxRecvMsgSize(max(int(s.config.MaxRequestBytes), openBody)),
		grpc.MaxSendMsgSize(maxSendBytes),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	)
	s.health = health.NewServer()
	healthpb.RegisterHealthServer(g, s.health)
	o := reflection.ServerOptions{Services: g}
	reflectionv1.RegisterServerReflectionServer(g, reflection.NewServerV1(o))
	reflectionv1alpha.RegisterServerReflectionServer(g, reflection.NewServer(o))
	return g
}

func (s *Server) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer func() { s.recovered(ctx, recover(), &err) }()
	resp, err = handle(ctx, req)
	if err != nil {
		s.note(ctx, err)
		return nil, answerTo(ctx, err).GRPCStatus().Err()
	}
	return resp, nil
}

func (s *Server) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() { s.recovered(stream.Context(), recover(), &err) }()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	callOf(ctx).onFailure(cancel)
	if err := handle(srv, endable{stream, ctx}); err != nil {
		s.note(ctx, err)
		return answerTo(ctx, err).GRPCStatus().Err()
	}
	return nil
}

// endable is a stream that can be ended before its caller or its deadline does.
type endable struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // the interface has a method for it
}

// Context returns the context of the stream.
func (e endable) Context() context.Context { return e.ctx }

// recovered converts a panic to an error of this call. The process continues: other calls and the controllers are not
// affected.
func (s *Server) recovered(ctx context.Context, panicked any, err *error) {
	if panicked == nil {
		return
	}
	panics.Inc()
	s.log.Error(nil, "Call panicked", "panic", panicked, "stack", string(debug.Stack()), "method", callOf(ctx).method)
	*err = Refuse(codes.Internal, "internal error: see the log of the server").GRPCStatus().Err()
}

// note logs the details that the caller does not get.
func (s *Server) note(ctx context.Context, err error) {
	_, ours := errors.AsType[*Error](err)
	_, reviews := errors.AsType[*unavailable](err)
	if reviews || !ours && AsError(err).Code == codes.Internal {
		s.log.Error(err, "RPC failed", "method", callOf(ctx).method)
	}
}

// Unary describes an RPC that handle serves. The service descriptor may have any name, and there may be several: on the
// wire, message types are only identified by their field numbers.
func Unary[S any, Q any, Req interface {
	*Q
	proto.Message
}, Resp proto.Message](name string, handle func(S, context.Context, Req) (Resp, error)) grpc.MethodDesc {
	handler := func(
		srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor,
	) (any, error) {
		var in rawMessage
		if err := decode(&in); err != nil {
			return nil, err
		}
		// Decoding is part of the call: it may panic, and its errors have fields.
		run := func(ctx context.Context, _ any) (any, error) {
			req := Req(new(Q))
			if err := Decode(in.bytes, req); err != nil {
				return nil, err
			}
			return handle(srv.(S), ctx, req)
		}
		return intercept(ctx, &in, &grpc.UnaryServerInfo{Server: srv, FullMethod: name}, run)
	}
	return grpc.MethodDesc{MethodName: name, Handler: handler}
}

// Streaming describes an RPC that answers a request of most bytes with a stream. handle sends its messages one after the other.
func Streaming[S any, Q any, Req interface {
	*Q
	proto.Message
}, M any](name string, most int, handle func(S, context.Context, Req, func(M) error) error) grpc.StreamDesc {
	handler := func(srv any, stream grpc.ServerStream) error {
		var in rawMessage
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		if n := len(in.bytes); n > most {
			return InvalidField("request", fmt.Sprintf("is %d bytes, and may be %d", n, most))
		}
		req := Req(new(Q))
		if err := Decode(in.bytes, req); err != nil {
			return err
		}
		return handle(srv.(S), stream.Context(), req, func(m M) error { return stream.SendMsg(m) })
	}
	return grpc.StreamDesc{StreamName: name, Handler: handler, ServerStreams: true}
}

// rawMessage is a request that is not decoded yet: the library would return INTERNAL for a malformed one.
type rawMessage struct{ bytes []byte }

type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*rawMessage); ok {
		m.bytes = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
