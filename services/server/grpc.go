// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
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

// maxSendBytes bounds an answer: a page of the largest objects that there can be is less.
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
		return nil, AsError(err).GRPCStatus().Err()
	}
	return resp, nil
}

func (s *Server) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer func() { s.recovered(stream.Context(), recover(), &err) }()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	callOf(ctx).onFailure(cancel)
	return handle(srv, endable{stream, ctx})
}

// endable is a stream that can be ended before its caller or its time does.
type endable struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // the interface has a method for it
}

// Context returns that of the stream.
func (e endable) Context() context.Context { return e.ctx }

// recovered makes a panic an error of this call. The program goes on: other calls, and the controllers, have no part in it.
func (s *Server) recovered(ctx context.Context, panicked any, err *error) {
	if panicked == nil {
		return
	}
	panics.Inc()
	s.log.Error(nil, "A call panicked", "panic", panicked, "stack", string(debug.Stack()), "method", callOf(ctx).method)
	*err = Refuse(codes.Internal, "internal error: the log of berth-controller has it").GRPCStatus().Err()
}

// note logs what the caller is not told.
func (s *Server) note(ctx context.Context, err error) {
	_, ours := errors.AsType[*Error](err)
	_, reviews := errors.AsType[*unavailable](err)
	if reviews || !ours && AsError(err).Code == codes.Internal {
		s.log.Error(err, "RPC failed", "method", callOf(ctx).method)
	}
}

// Unary describes an rpc that handle serves. The service descriptor that it goes into may have any name, and be one of
// several: the message types are on the wire only by their field numbers.
func Unary[S any, Q any, Req interface {
	*Q
	proto.Message
}, Resp proto.Message](name string, handle func(S, context.Context, Req) (Resp, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
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
	}}
}

// rawMessage is a request that is not decoded yet: the library would return INTERNAL for one that is malformed.
type rawMessage struct{ bytes []byte }

type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*rawMessage); ok {
		m.bytes = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
