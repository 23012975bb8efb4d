// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	oaashealth "berth.dev/berth/apis/proto/oaas/health"
	"berth.dev/berth/services/server"
)

// healthFront serves grpc.health.v1 under the name of oaas.
type healthFront struct{ health healthpb.HealthServer }

func healthDescription() *grpc.ServiceDesc {
	d := oaashealth.HealthService_ServiceDesc
	return &grpc.ServiceDesc{
		ServiceName: d.ServiceName, HandlerType: (*any)(nil), Metadata: d.Metadata,
		Methods: []grpc.MethodDesc{server.Unary("Check", (*healthFront).check)},
		Streams: []grpc.StreamDesc{{StreamName: "Watch", ServerStreams: true, Handler: watch}},
	}
}

// check answers within the message for a service that is not served: clients of oaas take any gRPC error for
// a server that is down.
func (h *healthFront) check(ctx context.Context, req *oaashealth.HealthCheckRequest) (*oaashealth.HealthCheckResponse, error) {
	r, err := h.health.Check(ctx, &healthpb.HealthCheckRequest{Service: req.GetService()})
	if status.Code(err) == codes.NotFound {
		return healthOf(healthpb.HealthCheckResponse_SERVICE_UNKNOWN), nil
	}
	if err != nil {
		return nil, err
	}
	return healthOf(r.GetStatus()), nil
}

func watch(srv any, stream grpc.ServerStream) error {
	var req oaashealth.HealthCheckRequest
	if err := stream.RecvMsg(&req); err != nil {
		return err
	}
	return srv.(*healthFront).health.Watch(&healthpb.HealthCheckRequest{Service: req.GetService()}, watcher{stream})
}

// watcher sends the answers of the one service as those of the other.
type watcher struct{ grpc.ServerStream }

// Send sends a state.
func (w watcher) Send(r *healthpb.HealthCheckResponse) error {
	return w.SendMsg(healthOf(r.GetStatus()))
}

// healthOf is a state in the other enum, which has the same numbers.
func healthOf(s healthpb.HealthCheckResponse_ServingStatus) *oaashealth.HealthCheckResponse {
	return &oaashealth.HealthCheckResponse{Status: oaashealth.HealthCheckResponse_ServingStatus(s)}
}
