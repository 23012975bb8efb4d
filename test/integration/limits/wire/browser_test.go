// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/anypb"

	"berth.dev/berth/apis/config/controller"
	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/test/wire/mapform"
	"berth.dev/berth/test/wire/oaasplan"
)

const webPage = "https://ui.example"

// toBrowsers has pages call.
func toBrowsers(origins ...string) func(*controller.Services) {
	return func(c *controller.Services) { c.GRPCWeb.Enabled, c.GRPCWeb.AllowedOrigins = true, origins }
}

// ofPage makes calls of a page by gRPC-Web, over HTTP/1.1 as browsers do without TLS.
func ofPage[Q, R any](s *scene, token, origin, method string, in *Q) (*connect.Response[R], error) {
	s.T.Helper()
	transport := &http.Transport{}
	s.T.Cleanup(transport.CloseIdleConnections)
	c := connect.NewClient[Q, R](&http.Client{Transport: transport}, "http://"+s.Address+method, connect.WithGRPCWeb())
	r := connect.NewRequest(in)
	r.Header().Set("Berth-Namespace", s.Namespace)
	if origin != "" {
		r.Header().Set("Origin", origin)
	}
	if token != "" {
		r.Header().Set("Authorization", "Bearer "+token)
	}
	return c.CallUnary(s.Ctx, r)
}

// A client of the published proto that is not ours, in both forms, with the rights of its token and no others.
func TestABrowserClientCalls(t *testing.T) {
	s := serve(t, toBrowsers(webPage))
	create := func(token string) (*connect.Response[orchestratorv1.ResourceLimitResponse], error) {
		return ofPage[orchestratorv1.CreateResourceLimitRequest, orchestratorv1.ResourceLimitResponse](s, token, webPage,
			"/"+contractName+"/CreateResourceLimit", &orchestratorv1.CreateResourceLimitRequest{
				Name: "from-a-page", Limits: &orchestratorv1.ResourceLimit{
					Cpu: "1", Memory: "1Gi", NodeSelector: &anypb.Any{TypeUrl: "kubernetes.io/NodeSelector", Value: []byte(selectorJSON)},
				},
			})
	}
	_, err := create(s.Viewer)
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err), "%v", err)
	_, err = create("")
	require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err), "%v", err)
	resp, err := create(s.Editor)
	require.NoError(t, err)
	assert.JSONEq(t, selectorJSON, string(resp.Msg.Limits.NodeSelector.Value))
	assert.Equal(t, webPage, resp.Header().Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "ssd", s.stored("from-a-page").Spec.NodeSelector["disktype"])
	_, err = create(s.Editor)
	require.Equal(t, connect.CodeAlreadyExists, connect.CodeOf(err), "%v", err)

	got, err := ofPage[mapform.GetResourceLimitRequest, mapform.ResourceLimitResponse](s, s.Viewer, webPage,
		"/"+upstreamName+"/GetResourceLimit", &mapform.GetResourceLimitRequest{Name: "from-a-page"})
	require.NoError(t, err)
	assert.Equal(t, "ssd", got.Msg.Limits.NodeSelector["disktype"], "the form of the service")

	_, err = ofPage[mapform.CreateResourceLimitRequest, mapform.ResourceLimitResponse](s, s.Editor, webPage,
		"/"+upstreamName+"/CreateResourceLimit", &mapform.CreateResourceLimitRequest{Name: "Wrong!", Limits: &mapform.ResourceLimit{Cpu: "1", Memory: "1Gi"}})
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%v", err)
	failed, _ := errors.AsType[*connect.Error](err)
	require.Len(t, failed.Details(), 1)
	detail, err := failed.Details()[0].Value()
	require.NoError(t, err)
	assert.Equal(t, "name", detail.(*errdetails.BadRequest).FieldViolations[0].Field)

	// The service of DeploymentRecords is on the same port: the editor has no right to its objects.
	_, err = ofPage[oaasplan.GetDeploymentStatusRequest, oaasplan.GetDeploymentStatusResponse](s, s.Editor, webPage,
		"/oaas.deployment.DeploymentService/GetDeploymentStatus", &oaasplan.GetDeploymentStatusRequest{DeploymentId: "x"})
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "deploymentrecords")

	_, err = ofPage[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse](s, "", "https://evil.example",
		"/grpc.health.v1.Health/Check", &healthpb.HealthCheckRequest{})
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "services.grpcWeb.allowedOrigins")

	preflight := func(origin string) answer {
		return s.rest("", http.MethodOptions, "/x", "", "Origin", origin, "Access-Control-Request-Method", "DELETE",
			"Access-Control-Request-Headers", "authorization")
	}
	assert.Equal(t, webPage, preflight(webPage).header.Get("Access-Control-Allow-Origin"), "REST")
	assert.Empty(t, preflight("https://evil.example").header.Get("Access-Control-Allow-Origin"))
}

func TestPagesCallThroughTheProxyOnlyIfTheyAreNamed(t *testing.T) {
	s := serve(t)
	s.proxy("editor", "--allowed-origin", "http://localhost:5173")
	call := func(origin string) error {
		_, err := ofPage[mapform.CreateResourceLimitRequest, mapform.ResourceLimitResponse](s, "", origin, "/"+upstreamName+"/CreateResourceLimit",
			&mapform.CreateResourceLimitRequest{Name: "from-a-page", Limits: &mapform.ResourceLimit{Cpu: "1", Memory: "1Gi"}})
		return err
	}
	require.Error(t, call("https://evil.example"))
	assert.Zero(t, s.count())
	require.NoError(t, call("http://localhost:5173"))
	assert.Equal(t, 1, s.count())
	err := call("http://localhost:5173")
	require.Equal(t, connect.CodeAlreadyExists, connect.CodeOf(err), "a refusal of the services: %v", err)
}
