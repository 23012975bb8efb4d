// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/config/controller"
)

// users authenticates callers by a function, false for no one.
func users(nameOf func(header http.Header) (string, bool)) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name, ok := nameOf(r.Header)
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, ok, nil
	})
}

// served runs a server on loopback until the test ends, and returns its address.
func served(t *testing.T, s *Server) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// handling has calls handled without the listeners of a server, so that its log is only about calls.
func handling(t *testing.T, s *Server) (*httptest.Server, *grpc.ClientConn) {
	t.Helper()
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	h := httptest.NewUnstartedServer(s)
	h.Config.Protocols = &p
	h.Start()
	t.Cleanup(h.Close)
	return h, dial(t, h.Listener.Addr().String())
}

// logging is a server whose log is kept.
func logging(t *testing.T) (*Server, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	s, err := New(controller.Default().Services, &rest.Config{Host: "127.0.0.1:1"},
		funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}))
	require.NoError(t, err)
	return s, log
}

type panicking struct{}

func (panicking) call(context.Context, *emptypb.Empty) (*emptypb.Empty, error) { panic("of gRPC") }

// A panic is an INTERNAL of that call, is counted and logged, and the server continues.
func TestAPanicEndsTheCallOnly(t *testing.T) {
	s, log := logging(t)
	s.reviews.authn = users(func(http.Header) (string, bool) { return "alice", true })
	s.Register(&grpc.ServiceDesc{
		ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{Unary("Call", panicking.call)},
	}, panicking{})
	s.Route("/panic", map[string]Handler{http.MethodGet: func(http.ResponseWriter, *http.Request) error { panic("of REST") }})
	s.Route(
		"/secret",
		map[string]Handler{http.MethodGet: func(http.ResponseWriter, *http.Request) error { return errors.New("the secret") }},
	)
	h, conn := handling(t, s)
	before := testutil.ToFloat64(panics)
	get := func(path string) (int, string) {
		resp, err := http.Get(h.URL + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		var e struct{ Code, Message string }
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&e))
		return resp.StatusCode, e.Code + " " + e.Message
	}
	for range 2 {
		code, text := get("/panic")
		assert.Equal(t, http.StatusInternalServerError, code)
		assert.Contains(t, text, "INTERNAL")
		assert.NotContains(t, text, "of REST")
	}
	err := conn.Invoke(t.Context(), "/test.Service/Call", &emptypb.Empty{}, &emptypb.Empty{})
	require.Equal(t, codes.Internal, status.Code(err), "%v", err)
	assert.NotContains(t, err.Error(), "of gRPC")
	assert.InDelta(t, before+3, testutil.ToFloat64(panics), 0)

	code, text := get("/secret")
	assert.Equal(t, http.StatusInternalServerError, code)
	assert.NotContains(t, text, "secret", "not for callers")
	for _, logged := range []string{"of REST", "of gRPC", "the secret", `"code"="INTERNAL"`, `"caller"="alice"`} {
		assert.Contains(t, log.String(), logged)
	}
}

func TestErrorsOfTheAPIServer(t *testing.T) {
	resource := schema.GroupResource{Group: "berth.dev", Resource: "resourcelimits"}
	for name, tc := range map[string]struct {
		err  error
		code codes.Code
		http int
	}{
		"not found":   {apierrors.NewNotFound(resource, "x"), codes.NotFound, 404},
		"no such CRD": {apierrors.NewGenericServerResponse(404, "get", resource, "", "", 0, true), codes.Unavailable, 503},
		"no CRD, by name": {
			apierrors.NewGenericServerResponse(404, "get", resource, "x", "404 page not found", 0, true),
			codes.Unavailable, 503,
		},
		"exists":          {apierrors.NewAlreadyExists(resource, "x"), codes.AlreadyExists, 409},
		"conflict":        {apierrors.NewConflict(resource, "x", errors.New("old")), codes.Aborted, 409},
		"forbidden":       {apierrors.NewForbidden(resource, "x", errors.New("no")), codes.PermissionDenied, 403},
		"unauthorized":    {apierrors.NewUnauthorized("no"), codes.Internal, 500},
		"expired":         {apierrors.NewResourceExpired("old"), codes.Aborted, 409},
		"bad request":     {apierrors.NewBadRequest("bad"), codes.InvalidArgument, 400},
		"too many":        {apierrors.NewTooManyRequests("slow", 1), codes.ResourceExhausted, 429},
		"timeout":         {apierrors.NewTimeoutError("slow", 1), codes.DeadlineExceeded, 504},
		"unavailable":     {apierrors.NewServiceUnavailable("down"), codes.Unavailable, 503},
		"internal":        {apierrors.NewInternalError(errors.New("oops")), codes.Internal, 500},
		"wrapped":         {fmt.Errorf("get: %w", apierrors.NewNotFound(resource, "x")), codes.NotFound, 404},
		"deadline":        {fmt.Errorf("get: %w", context.DeadlineExceeded), codes.DeadlineExceeded, 504},
		"given up":        {context.Canceled, codes.Canceled, 499},
		"a mistake":       {errors.New("the secret"), codes.Internal, 500},
		"a gRPC status":   {status.Error(codes.ResourceExhausted, "large"), codes.ResourceExhausted, 429},
		"the reviews are": {&unavailable{errors.New("refused")}, codes.Unavailable, 503},
	} {
		t.Run(name, func(t *testing.T) {
			e := AsError(tc.err)
			assert.Equal(t, tc.code, e.Code)
			assert.Equal(t, tc.http, e.httpStatus())
			assert.NotContains(t, e.Message, "secret")
		})
	}
	assert.Nil(t, AsError(nil))
}

// If the API server does not answer, nothing is known about the caller. Every answer except an approval is a refusal.
func TestEveryReviewWithoutApprovalIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want codes.Code
	}{
		"nothing shown":            {nil, codes.Unauthenticated},
		"a token that is no token": {errors.New("[invalid bearer token]"), codes.Unauthenticated},
		"an issuer's word":         {utilerrors.NewAggregate([]error{errors.New("oidc: token is expired")}), codes.Unauthenticated},
		"a stranger's certificate": {x509.UnknownAuthorityError{}, codes.Unauthenticated},
		"no right to review": {
			utilerrors.NewAggregate([]error{apierrors.NewForbidden(schema.GroupResource{Resource: "tokenreviews"}, "", errors.New("no"))}),
			codes.Unavailable,
		},
		"no API server": {
			utilerrors.NewAggregate([]error{errors.New("x509"), &url.Error{Op: "Post", Err: errors.New("refused")}}),
			codes.Unavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reviews{
				authn: authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, tc.err }),
			}
			_, err := r.authenticate(t.Context(), http.Header{}, nil)
			assert.Equal(t, tc.want, AsError(err).Code)
		})
	}
}

func TestTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1S": time.Second, "100m": 100 * time.Millisecond, "1n": time.Millisecond, "5M": 5 * time.Minute, "99999999H": 24 * time.Hour,
	} {
		got, err := parseTimeout(text)
		require.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "S", "1", "1s", "-1S", "123456789S", "1.5S"} {
		_, err := parseTimeout(text)
		assert.Error(t, err, text)
	}
}

func FuzzTimeouts(f *testing.F) {
	f.Add("1S")
	f.Add("99999999H")
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseTimeout(text); err == nil && (d < time.Millisecond || d > 24*time.Hour) {
			t.Fatal(d)
		}
	})
}

// The correlation ID of a caller is in every answer and in the log, unless it cannot be logged.
func TestACallIsFoundByItsCorrelation(t *testing.T) {
	s, log := logging(t)
	s.reviews.authn = users(func(h http.Header) (string, bool) { return "alice", h.Get("Authorization") != "" })
	seen := ""
	s.Register(&grpc.ServiceDesc{ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		Unary("Works", func(_ panicking, ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
			seen = Correlation(ctx)
			return &emptypb.Empty{}, nil
		}),
		Unary("Fails", func(panicking, context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
			return nil, Refuse(codes.NotFound, "no")
		}),
		Unary("Panics", panicking.call),
	}}, panicking{})
	h, conn := handling(t, s)
	call := func(method, id, token string) (codes.Code, []string) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-correlation-id", id)
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
		}
		var header metadata.MD
		err := conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&header))
		return status.Code(err), header.Get("x-correlation-id")
	}
	for i, tc := range []struct {
		method, token string
		want          codes.Code
	}{
		{"/test.Service/Works", "t", codes.OK},
		{"/test.Service/Fails", "t", codes.NotFound},
		{"/test.Service/Panics", "t", codes.Internal},
		{"/test.Service/Unknown", "t", codes.Unimplemented},
		{"/no.Service/Unknown", "t", codes.Unimplemented},
		{"/test.Service/Works", "", codes.Unauthenticated},
	} {
		id := fmt.Sprintf("id %d", i)
		code, back := call(tc.method, id, tc.token)
		assert.Equal(t, tc.want, code, tc.method)
		assert.Equal(t, []string{id}, back, tc.method)
		assert.Contains(t, log.String(), fmt.Sprintf(`"correlation"=%q`, id))
	}
	assert.Equal(t, "id 0", seen)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/nothing", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("X-Correlation-Id", "rest")
	resp, err := h.Client().Do(r)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, "rest", resp.Header.Get("X-Correlation-Id"))
	for says, ids := range map[string][]string{
		"x-correlation-id: has 257 bytes, and may have 256; it is not used": {strings.Repeat("x", 257)},
		"x-correlation-id: has other characters than printable ASCII":       {"é"},
		"x-correlation-id: is given 2 times; it is not used":                {"a", "b"},
	} {
		r.Header["X-Correlation-Id"] = ids
		resp, err := h.Client().Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Empty(t, resp.Header.Get("X-Correlation-Id"))
		assert.Contains(t, resp.Header.Get("Warning"), says)
	}
	var header metadata.MD
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "t", "x-correlation-id", "a", "x-correlation-id", "b")
	require.NoError(t, conn.Invoke(ctx, "/test.Service/Works", &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&header)))
	assert.Equal(t, []string{"x-correlation-id: is given 2 times; it is not used"}, header.Get("berth-warning"))
}

// A warning is in the answer and in the log.
func TestAWarningIsInTheAnswerAndInTheLog(t *testing.T) {
	s, log := logging(t)
	s.reviews.authn = users(func(http.Header) (string, bool) { return "alice", true })
	const text = `"small" is damaged: é`
	s.Register(&grpc.ServiceDesc{ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		Unary("Warns", func(_ panicking, ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
			Warn(ctx, text)
			return &emptypb.Empty{}, nil
		}),
	}}, panicking{})
	s.Route("/warns", map[string]Handler{http.MethodGet: func(w http.ResponseWriter, r *http.Request) error {
		Warn(r.Context(), text)
		return WriteJSON(w, http.StatusOK, nil)
	}})
	h, conn := handling(t, s)
	var header metadata.MD
	require.NoError(t, conn.Invoke(t.Context(), "/test.Service/Warns", &emptypb.Empty{}, &emptypb.Empty{}, grpc.Header(&header)))
	assert.Equal(t, []string{`"small" is damaged: %C3%A9`}, header.Get("berth-warning"))
	assert.Equal(t, 1, strings.Count(log.String(), "is damaged"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/warns", http.NoBody)
	require.NoError(t, err)
	resp, err := h.Client().Do(r)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, []string{`299 - "\"small\" is damaged: é"`}, resp.Header.Values("Warning"))
	assert.Equal(t, 2, strings.Count(log.String(), "is damaged"))
	Warn(t.Context(), text) // no call: no caller to warn
}

// A pod that is ready is sent calls.
func TestTheServerIsReadyWhileItServes(t *testing.T) {
	s, _ := logging(t)
	require.EqualError(t, s.Ready(nil), "gRPC and REST are not served")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	require.Eventually(t, func() bool { return s.Ready(nil) == nil }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
	require.Error(t, s.Ready(nil))
}
