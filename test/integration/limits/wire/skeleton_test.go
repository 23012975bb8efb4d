// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire/mapform"
)

func smallRequests(s *controller.Services) { s.MaxRequestBytes = 4096 }

const (
	upstreamName = "mcp.orchestrator.v1.McpOrchestratorService"
	contractName = "mcp.orchestrator.v1.ResourceLimitService"
)

func TestReflectionHealthAndMetrics(t *testing.T) {
	s := serve(t)
	conn := s.Dial(nil)

	ask := servicetest.Reflect(s.as(s.Nobody), t, conn)
	names := ask.Services()
	assert.ElementsMatch(t, []string{
		upstreamName, contractName, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		// Of DeploymentRecords: test/integration/records/wire.
		"oaas.deployment.DeploymentService", "deployment.DeploymentService", "oaas.health.HealthService", "oaas.health.CrmInfoService",
	}, names)
	set := &descriptorpb.FileDescriptorSet{File: ask.Files(upstreamName)}
	if len(set.File) == 1 { // the server sends imports only if a client requests them
		set.File = append([]*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto)}, set.File...)
	}
	registry, err := protodesc.NewFiles(set)
	require.NoError(t, err)
	limit, err := registry.FindDescriptorByName("mcp.orchestrator.v1.ResourceLimit")
	require.NoError(t, err)
	assertPlan(t, limit)

	old, err := reflectionv1alpha.NewServerReflectionClient(conn).ServerReflectionInfo(s.as(s.Nobody))
	require.NoError(t, err)
	//nolint:staticcheck // old clients have no other version
	require.NoError(t, old.Send(&reflectionv1alpha.ServerReflectionRequest{MessageRequest: &reflectionv1alpha.ServerReflectionRequest_ListServices{}}))
	answer, err := old.Recv()
	require.NoError(t, err)
	assert.Len(t, answer.GetListServicesResponse().GetService(), len(names)) //nolint:staticcheck // as above

	nobody, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(s.Ctx)
	require.NoError(t, err)
	servicetest.Refused(t, servicetest.Err(nobody.Recv()), codes.Unauthenticated, "")

	// Probes have no token.
	for _, service := range []string{"", upstreamName, contractName} {
		r, err := healthpb.NewHealthClient(conn).Check(s.Ctx, &healthpb.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		assert.Equal(t, healthpb.HealthCheckResponse_SERVING, r.Status)
	}
	_, err = healthpb.NewHealthClient(conn).Check(s.Ctx, &healthpb.HealthCheckRequest{Service: "no.such.Service"})
	servicetest.Refused(t, err, codes.NotFound, "")
	health := s.do(httpClient(false), "", "GET", "/health", "")
	assert.Equal(t, 200, health.status)
	assert.Equal(t, "OK", health.body)

	// An authenticated caller of a service that is not served gets Unimplemented.
	_, err = s.mapped().ListNamespaces(s.as(s.Nobody), &mapform.GetResourceLimitRequest{})
	servicetest.Refused(t, err, codes.Unimplemented, "")
	err = conn.Invoke(s.as(s.Nobody), "/no.such.Service/Call", &emptypb.Empty{}, &emptypb.Empty{})
	servicetest.Refused(t, err, codes.Unimplemented, "")

	metrics, err := s.Process.Get(s.Ctx, "/metrics")
	require.NoError(t, err)
	for _, series := range []string{
		`berth_service_requests_total{code="NOT_FOUND",method="Check",service="grpc.health.v1.Health"} 1`,
		`berth_service_requests_total{code="UNIMPLEMENTED",method="other",service="` + upstreamName + `"} 1`,
		`berth_service_requests_total{code="UNIMPLEMENTED",method="other",service="other"} 1`,
		`berth_service_requests_total{code="OK",method="GET /health",service="rest"} 1`,
		`berth_service_request_duration_seconds_count{method="GET /health",service="rest"} 1`,
		`berth_service_requests_in_flight `,
	} {
		assert.Contains(t, string(metrics), series)
	}
}

func TestExtraAddressesServeTheSame(t *testing.T) {
	extra, err := cluster.FreeAddress()
	require.NoError(t, err)
	s := serve(t, func(c *controller.Services) { c.ExtraBindAddresses = []string{extra} })
	s.Address = extra
	require.NoError(t, servicetest.Err(s.any().CreateResourceLimit(s.as(s.Editor), small("x"))))
	assert.Equal(t, 200, s.rest(s.Viewer, "GET", "/x", "").status)
}

// A standby replica serves as well, and one that gets SIGTERM ends in good order.
func TestEveryReplicaServesAndStopsInGoodOrder(t *testing.T) {
	s := serve(t)
	first := s.Process
	s.start("second")
	metrics, err := s.Process.Get(s.Ctx, "/metrics")
	require.NoError(t, err)
	require.Contains(t, string(metrics), `leader_election_master_status{name="berth-controller"} 0`)
	require.NoError(t, servicetest.Err(s.any().CreateResourceLimit(s.as(s.Editor), small("x"))))

	// A watch of the health, a call that does not end by itself, gets a last answer and is cut off.
	watch, err := healthpb.NewHealthClient(s.Dial(nil)).Watch(s.Ctx, &healthpb.HealthCheckRequest{Service: upstreamName})
	require.NoError(t, err)
	r, err := watch.Recv()
	require.NoError(t, err)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, r.Status)
	s.Process.Terminate()
	r, err = watch.Recv()
	require.NoError(t, err)
	assert.Equal(t, healthpb.HealthCheckResponse_NOT_SERVING, r.Status)
	code, err := s.Process.Wait(s.Ctx)
	require.NoError(t, err)
	assert.Zero(t, code, s.Process.LogTail(20))
	assert.NotEqual(t, first.URL, s.Process.URL)
}

func TestMalformedMessagesAreRefusedByTheNameOfTheirField(t *testing.T) {
	s := serve(t, smallRequests)
	conn := s.Dial(nil, grpc.WithDefaultCallOptions(grpc.ForceCodec(servicetest.RawCodec{})))
	good, err := proto.Marshal(anyLimit("x", "kubernetes.io/NodeSelector", "kubernetes.io/Affinity"))
	require.NoError(t, err)
	limits := func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), b)
	}
	for name, tc := range map[string]struct {
		body  []byte
		field string
	}{
		"cut off within the limits": {good[:len(good)-1], "limits"},
		"no protobuf":               {[]byte{0xff, 0xff}, "request"},
		"a number for a name":       {protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1), "name"},
		"a name that is not UTF-8":  {protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0xff}), "name"},
		"a number for limits":       {protowire.AppendVarint(protowire.AppendTag(nil, 6, protowire.VarintType), 1), "limits"},
		"a number for a selector":   {limits(protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 1)), "limits.node_selector"},
		"a number for an affinity":  {limits(protowire.AppendVarint(protowire.AppendTag(nil, 8, protowire.VarintType), 1)), "limits.node_affinity"},
		"bytes for an affinity":     {limits(protowire.AppendBytes(protowire.AppendTag(nil, 8, protowire.BytesType), []byte{1, 2, 3})), "limits.node_affinity"},
		"nothing for an affinity":   {limits(protowire.AppendBytes(protowire.AppendTag(nil, 8, protowire.BytesType), nil)), "limits.node_affinity"},
		"a volume that is cut off":  {limits(protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), []byte{0x12, 0x05, 0x0a})), "limits.volumes"},
		"a group that never ends":   {limits(protowire.AppendTag(nil, 5, protowire.StartGroupType)), "limits.ephemeral_storage"},
	} {
		t.Run(name, func(t *testing.T) {
			err := conn.Invoke(s.as(s.Editor), "/"+upstreamName+"/CreateResourceLimit", servicetest.Raw(tc.body), nil)
			servicetest.Refused(t, err, codes.InvalidArgument, tc.field)
		})
	}
	large := small("x")
	large.Description = strings.Repeat("d", 5000)
	servicetest.Refused(t, servicetest.Err(s.any().CreateResourceLimit(s.as(s.Editor), large)), codes.InvalidArgument, "request", "5")
	assert.Zero(t, s.count())
}

func TestNoCallOutlastsItsDeadline(t *testing.T) {
	s := serve(t)
	s.Reconfigure(s.Process, func(c *controller.Configuration) {
		c.Services.DefaultTimeoutSeconds, c.Services.MaxTimeoutSeconds = 1, 2
	})
	c := s.any()
	require.NoError(t, servicetest.Err(c.CreateResourceLimit(s.as(s.Editor), small("old"))))
	// Who the viewer is is known then: it is the call itself that waits, and not the review of its token.
	require.NoError(t, every(c)["get"](s.as(s.Viewer)))
	api := s.Cluster.Component(cluster.APIServer)
	api.Pause()
	defer api.Resume()
	for name, tc := range map[string]struct {
		ask         time.Duration
		least, most time.Duration
	}{
		"none named":       {0, time.Second, 5 * time.Second},
		"a short one":      {300 * time.Millisecond, 300 * time.Millisecond, time.Second},
		"one that is long": {time.Minute, 2 * time.Second, 6 * time.Second},
	} {
		ctx := s.as(s.Viewer)
		if tc.ask > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, tc.ask)
			defer cancel()
		}
		began := time.Now()
		_, err := c.GetResourceLimit(ctx, named("old"))
		took := time.Since(began)
		servicetest.Refused(t, err, codes.DeadlineExceeded, "")
		assert.GreaterOrEqual(t, took, tc.least-50*time.Millisecond, name)
		assert.Less(t, took, tc.most, name)
	}
	for _, token := range []string{s.Viewer, s.Nobody} { // the second is not known yet
		a := s.rest(token, "GET", "/old", "")
		a.refuses(t, 504, "DEADLINE_EXCEEDED", "")
	}
}

// assertPlan demands the fields of the plan's ResourceLimit.
func assertPlan(t *testing.T, d protoreflect.Descriptor) {
	t.Helper()
	fields := d.(protoreflect.MessageDescriptor).Fields()
	for number, name := range map[protoreflect.FieldNumber]string{7: "node_selector", 8: "node_affinity"} {
		f := fields.ByNumber(number)
		require.NotNil(t, f)
		assert.Equal(t, name, string(f.Name()))
		assert.Equal(t, "google.protobuf.Any", string(f.Message().FullName()))
	}
}
