// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// dial serves a world's environments with all that is between them and a client, and returns a context of a caller.
func dial(t *testing.T, w *world, changes ...func(*controller.Services)) (*grpc.ClientConn, context.Context) {
	t.Helper()
	config := controller.Default().Services
	for _, change := range changes {
		change(&config)
	}
	s, err := server.New(config, w.config, logr.Discard())
	require.NoError(t, err)
	require.NoError(t, Add(s, w.config, Options{Namespace: "default", TokenKey: testKey}))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(serving, listener) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x"), time.Minute)
	t.Cleanup(cancel)
	return conn, ctx
}

// The smoke client's calls, in its order.
func TestTheTenCallsOfTheSmokeClient(t *testing.T) {
	w, _ := newWorld(t)
	w.log = func(rw http.ResponseWriter, _ *http.Request, pod string) { fmt.Fprint(rw, at(1, "hello from "+pod)) }
	conn, ctx := dial(t, w)
	client := schedulerv1.NewSchedulerServiceClient(conn)

	created, err := client.CreateEnvironment(ctx, &schedulerv1.CreateEnvironmentRequest{Spec: smoke()})
	require.NoError(t, err)
	id := created.GetEnvironment().GetId()
	w.with(func() { assert.Equal(t, "alice", w.environments["default/"+id].Annotations[v1alpha1.ActorAnnotation]) })
	w.runs(id, v1alpha1.EnvironmentRunning)
	w.with(func() { w.pods = append(w.pods, running("backend", "b", "1", false)) })

	got, err := client.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id})
	require.NoError(t, err)
	assert.Equal(t, schedulerv1.EnvironmentStatus_ENVIRONMENT_STATUS_RUNNING, got.GetEnvironment().GetStatus())
	assert.True(t, proto.Equal(withoutSecrets(smoke()), got.GetEnvironment().GetSpec()))
	require.Len(t, got.GetEnvironment().GetContainers(), 1)
	assert.Equal(t, schedulerv1.ContainerStatus_CONTAINER_STATUS_RUNNING, got.GetEnvironment().GetContainers()[0].GetStatus())

	list, err := client.ListEnvironments(ctx, &schedulerv1.ListEnvironmentsRequest{
		PageSize: 10, Filters: map[string]string{"environment": "development", "team": "backend"},
	})
	require.NoError(t, err)
	assert.EqualValues(t, 1, list.GetTotalCount())
	require.NoError(t, errOf(client.GetEnvironmentStatus(ctx, &schedulerv1.GetEnvironmentStatusRequest{Id: id})))
	logs, err := client.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: id, ContainerName: "backend", TailLines: 100})
	require.NoError(t, err)
	line, err := logs.Recv()
	require.NoError(t, err)
	assert.Equal(t, "hello from b", line.GetMessage())
	require.ErrorIs(t, errOf(logs.Recv()), io.EOF)
	_, err = client.UpdateEnvironment(ctx, &schedulerv1.UpdateEnvironmentRequest{Id: id, Spec: &schedulerv1.EnvironmentSpecification{
		Name: "example-app", ApplicationStack: &schedulerv1.ApplicationStack{Version: "1.1.0", Backend: smoke().GetApplicationStack().GetBackend()},
	}})
	require.NoError(t, err)
	require.NoError(t, errOf(client.RestartEnvironment(ctx, &schedulerv1.RestartEnvironmentRequest{Id: id})))
	require.NoError(t, errOf(client.StopEnvironment(ctx, &schedulerv1.StopEnvironmentRequest{Id: id})))
	require.NoError(t, errOf(client.StartEnvironment(ctx, &schedulerv1.StartEnvironmentRequest{Id: id})))
	deleted, err := client.DeleteEnvironment(ctx, &schedulerv1.DeleteEnvironmentRequest{Id: id})
	require.NoError(t, err)
	assert.True(t, deleted.GetSuccess())
	assert.Equal(t, codes.NotFound, status.Code(errOf(client.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id}))))
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (bytesCodec) Unmarshal([]byte, any) error   { return nil }
func (bytesCodec) Name() string                  { return "proto" }

func TestARequestForLogsThatIsNoMessage(t *testing.T) {
	w, _ := newWorld(t)
	conn, ctx := dial(t, w)
	for name, tc := range map[string]struct {
		sent []byte
		want string
	}{
		"no protobuf":  {[]byte{0xff}, "request"},
		"another type": {[]byte{0x08, 0x01}, "id: is encoded as a varint"},
		"no UTF-8":     {[]byte{0x0a, 0x01, 0xff}, "id: is not UTF-8"},
		"no id":        {nil, "id: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, schedulerv1.SchedulerService_GetEnvironmentLogs_FullMethodName,
				grpc.ForceCodec(bytesCodec{}))
			require.NoError(t, err)
			require.NoError(t, stream.SendMsg(tc.sent))
			require.NoError(t, stream.CloseSend())
			var out []byte
			err = stream.RecvMsg(&out)
			assert.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
			assert.Contains(t, err.Error(), tc.want)
		})
	}
}

// counted are the calls of a method that ended with a code, and how many calls of it were timed and took how many seconds.
func counted(t require.TestingT, method, code string) (calls float64, timed uint64, took float64) {
	families, err := metrics.Registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch {
			case f.GetName() == "berth_service_requests_total" && is(m, "method", method) && is(m, "code", code):
				calls = m.GetCounter().GetValue()
			case f.GetName() == "berth_service_request_duration_seconds" && is(m, "method", method):
				timed, took = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return calls, timed, took
}

// is reports whether a series is one of the service, and has a label.
func is(m *dto.Metric, label, value string) bool {
	want := map[string]string{"service": schedulerv1.SchedulerService_ServiceDesc.ServiceName, label: value}
	for _, l := range m.GetLabel() {
		if want[l.GetName()] == l.GetValue() {
			delete(want, l.GetName())
		}
	}
	return len(want) == 0
}

// Calls are counted by their codes, and timed.
func TestCallsAreCountedAndTimed(t *testing.T) {
	w, _ := logging(t)
	conn, ctx := dial(t, w)
	client := schedulerv1.NewSchedulerServiceClient(conn)
	get := func(id string) error {
		return errOf(client.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: id}))
	}
	logs := func(id string) error {
		logs, err := client.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: id})
		for err == nil {
			_, err = logs.Recv()
		}
		return err
	}
	for _, tc := range []struct {
		method, code string
		call         func() error
	}{
		{"GetEnvironment", "OK", func() error { return get(smokeID) }},
		{"GetEnvironment", "NOT_FOUND", func() error { return get("nothing") }},
		{"GetEnvironment", "INVALID_ARGUMENT", func() error { return get("") }},
		{"GetEnvironmentLogs", "OK", func() error { return logs(smokeID) }},
		{"GetEnvironmentLogs", "NOT_FOUND", func() error { return logs("nothing") }},
	} {
		t.Run(tc.method+" "+tc.code, func(t *testing.T) {
			calls, timed, took := counted(t, tc.method, tc.code)
			_ = tc.call()
			// The caller has the answer before it is counted.
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				now, times, sum := counted(c, tc.method, tc.code)
				assert.InDelta(c, calls+1, now, 0)
				assert.Equal(c, timed+1, times)
				assert.Greater(c, sum, took)
			}, 10*time.Second, 5*time.Millisecond)
		})
	}
}

// A caller gets an error while the API server is gone, and the same connection works once it is back.
func TestCallsSucceedOnceTheAPIServerReturns(t *testing.T) {
	w, _ := logging(t)
	conn, ctx := dial(t, w)
	client := schedulerv1.NewSchedulerServiceClient(conn)
	get := func() codes.Code {
		return status.Code(errOf(client.GetEnvironment(ctx, &schedulerv1.GetEnvironmentRequest{Id: smokeID})))
	}
	logs := func() codes.Code {
		logs, err := client.GetEnvironmentLogs(ctx, &schedulerv1.GetEnvironmentLogsRequest{Id: smokeID})
		require.NoError(t, err)
		return status.Code(errOf(logs.Recv()))
	}
	gone := func(rw http.ResponseWriter, _ *http.Request) bool {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err == nil {
			_ = conn.Close()
		}
		return true
	}
	for range 2 { // the first time, the caller is in no cache
		w.with(func() { w.before = gone })
		assert.Equal(t, codes.Unavailable, get())
		assert.Equal(t, codes.Unavailable, logs())
		w.with(func() { w.before = nil })
		require.Equal(t, codes.OK, get())
	}
}
