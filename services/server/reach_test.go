// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/config/controller"
)

func TestOneFailedCheckChangesNothing(t *testing.T) {
	var r reach
	for i, tc := range []struct{ there, serving, changed bool }{
		{true, true, false},
		{false, true, false},
		{true, true, false},
		{false, true, false},
		{false, false, true},
		{false, false, false},
		{true, true, true},
		{true, true, false},
	} {
		serving, changed := r.note(tc.there)
		assert.Equal(t, tc.serving, serving, "probe %d", i)
		assert.Equal(t, tc.changed, changed, "probe %d", i)
	}
}

func TestAServerErrorIsNoAnswer(t *testing.T) {
	code := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/readyz", r.URL.Path)
		w.WriteHeader(code)
	}))
	defer api.Close()
	r, err := newReach(&rest.Config{Host: api.URL})
	require.NoError(t, err)
	for answer, want := range map[int]bool{200: true, 401: true, 403: true, 404: true, 429: true, 500: false, 503: false} {
		code = answer
		assert.Equal(t, want, r.reachable(t.Context()), "%d", answer)
	}
	api.Close()
	assert.False(t, r.reachable(t.Context()), "no API server")
}

// apiServer is an API server on an address that authenticates and authorizes every caller.
func apiServer(t *testing.T, address string) *httptest.Server {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out any
		switch {
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			out = authenticationv1.TokenReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
				Status:   authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "alice"}},
			}
		case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
			out = authorizationv1.SubjectAccessReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
				Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: true},
			}
		default:
			return
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(out))
	}))
	_ = s.Listener.Close()
	s.Listener = listener
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// running serves a service whose method Call authorizes its caller, and whose methods Left and Stream return the time
// until their deadline.
func running(t *testing.T, c controller.Services, api *rest.Config) *grpc.ClientConn {
	t.Helper()
	s, err := New(c, api, logr.Discard())
	require.NoError(t, err)
	s.reach.interval = 5 * time.Millisecond
	left := func(ctx context.Context) *durationpb.Duration {
		deadline, _ := ctx.Deadline()
		return durationpb.New(time.Until(deadline))
	}
	s.Register(&grpc.ServiceDesc{ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		Unary("Call", func(_ *Server, ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
			return &emptypb.Empty{}, s.Authorize(ctx, Access{Verb: "get", Resource: "tests"})
		}),
		Unary("Left", func(_ *Server, ctx context.Context, _ *emptypb.Empty) (*durationpb.Duration, error) {
			return left(ctx), nil
		}),
	}, Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		return stream.SendMsg(left(stream.Context()))
	}}}}, s)
	return dial(t, served(t, s))
}

func asAlice(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x"), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// While the API server is unavailable, the health of every service is NOT_SERVING and calls are UNAVAILABLE. Both
// recover when it is available again.
func TestTheHealthReportsWhetherTheAPIServerIsReachable(t *testing.T) {
	api := apiServer(t, "127.0.0.1:0")
	conn := running(t, controller.Default().Services, &rest.Config{Host: api.URL})
	ctx := asAlice(t)
	client := healthpb.NewHealthClient(conn)
	say := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "test.Service", "grpc.health.v1.Health"} {
			watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{Service: service})
			require.NoError(t, err)
			for got := healthpb.HealthCheckResponse_UNKNOWN; got != want; {
				r, err := watch.Recv()
				require.NoError(t, err, "%q is not %s", service, want)
				got = r.GetStatus()
			}
		}
	}
	call := func() codes.Code {
		return status.Code(conn.Invoke(ctx, "/test.Service/Call", &emptypb.Empty{}, &emptypb.Empty{}))
	}
	say(healthpb.HealthCheckResponse_SERVING)
	require.Equal(t, codes.OK, call())

	api.Close()
	say(healthpb.HealthCheckResponse_NOT_SERVING)
	assert.Equal(t, codes.Unavailable, call())

	apiServer(t, api.Listener.Addr().String())
	say(healthpb.HealthCheckResponse_SERVING)
	assert.Equal(t, codes.OK, call())
}

func TestStreamsHaveATimeOfTheirOwn(t *testing.T) {
	c := controller.Default().Services
	c.DefaultTimeoutSeconds, c.MaxTimeoutSeconds, c.MaxStreamSeconds = 20, 40, 86400
	conn := running(t, c, &rest.Config{Host: apiServer(t, "127.0.0.1:0").URL})
	unary := func(ctx context.Context) (*durationpb.Duration, error) {
		var left durationpb.Duration
		return &left, conn.Invoke(ctx, "/test.Service/Left", &emptypb.Empty{}, &left)
	}
	stream := func(ctx context.Context) (*durationpb.Duration, error) {
		var left durationpb.Duration
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Service/Stream")
		require.NoError(t, err)
		require.NoError(t, s.CloseSend())
		return &left, s.RecvMsg(&left)
	}
	for name, tc := range map[string]struct {
		call      func(context.Context) (*durationpb.Duration, error)
		ask, want time.Duration
	}{
		"a call that does not say":   {unary, 0, 20 * time.Second},
		"a call with a deadline":     {unary, 30 * time.Second, 30 * time.Second},
		"a call that requests more":  {unary, 48 * time.Hour, 40 * time.Second},
		"a stream that does not say": {stream, 0, 24 * time.Hour},
		"a stream with a deadline":   {stream, time.Hour, time.Hour},
		"one that requests more":     {stream, 48 * time.Hour, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			// Without a deadline of the context the client sends none.
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x")
			if tc.ask > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.ask)
				defer cancel()
			}
			left, err := tc.call(ctx)
			require.NoError(t, err)
			assert.LessOrEqual(t, left.AsDuration(), tc.want)
			assert.Greater(t, left.AsDuration(), tc.want-9*time.Second)
		})
	}
}
