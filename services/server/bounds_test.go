// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/config/controller"
)

// bounded is a server on loopback, where every token is the name of a user.
type bounded struct {
	*Server
	t       *testing.T
	address string
	client  *http.Client
}

// waiting is a service whose calls end when the test ends them.
type waiting struct{ end chan struct{} }

func (w *waiting) call(ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
	select {
	case <-w.end:
		return &emptypb.Empty{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func serveBounded(t *testing.T, service *waiting, changes ...func(*controller.Services)) *bounded {
	t.Helper()
	c := controller.Default().Services
	for _, change := range changes {
		change(&c)
	}
	s, err := New(c, &rest.Config{Host: "127.0.0.1:1"}, logr.Discard())
	require.NoError(t, err)
	s.reviews.authn = users(func(h http.Header) (string, bool) { return strings.CutPrefix(h.Get("Authorization"), "Bearer ") })
	s.Register(&grpc.ServiceDesc{ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		Unary("Wait", (*waiting).call), Unary("Echo", (*waiting).echo),
	}, Streams: []grpc.StreamDesc{Streaming("Count", 1024, (*waiting).count)}}, service)
	s.Route("/wait", map[string]Handler{http.MethodPost: func(_ http.ResponseWriter, r *http.Request) error {
		var v struct{}
		return ReadJSON(r, &v)
	}})
	address := served(t, s)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &p}
	t.Cleanup(transport.CloseIdleConnections)
	return &bounded{s, t, address, &http.Client{Transport: transport}}
}

// endless is a body without an end, up to a size that proves that nothing limits it.
type endless struct {
	prefix string
	read   atomic.Int64
}

const unbounded = 64 << 20

// message is one of gRPC that is empty.
const message = "\x00\x00\x00\x00\x00"

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.prefix)
	e.prefix = e.prefix[n:]
	clear(p[n:])
	if e.read.Add(int64(len(p))) > unbounded {
		return 0, errors.New("the server reads all of it")
	}
	return len(p), nil
}

// request is a POST of a user, "" for none.
func (b *bounded) request(ctx context.Context, path, token string, body io.Reader) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.address+path, body)
	require.NoError(b.t, err)
	r.Header.Set("Content-Type", "application/grpc")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// post sends a gRPC request with a body, and returns the status, "" if the stream was reset.
func (b *bounded) post(method, token string, body io.Reader) (grpcStatus, message string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	r := b.request(ctx, method, token, io.NopCloser(body))
	r.Header.Set("Te", "trailers")
	resp, err := b.client.Do(r)
	require.NoError(b.t, ctx.Err(), "the call ends")
	if err != nil {
		return "", err.Error()
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(b.t, ctx.Err(), "the call ends")
	if s := resp.Header.Get("Grpc-Status"); s != "" {
		return s, resp.Header.Get("Grpc-Message")
	}
	return resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
}

// `(printf '\0\0\0\0\0'; cat /dev/zero) | curl` to a method without authentication used all memory of the process.
func TestABodyWithoutAnEndIsNotKept(t *testing.T) {
	end := make(chan struct{})
	b := serveBounded(t, &waiting{end})
	defer close(end)
	for name, tc := range map[string]struct{ method, token, prefix string }{
		"a stream that is open":            {"/grpc.health.v1.Health/Watch", "", message},
		"a call that is open":              {"/grpc.health.v1.Health/Check", "", message},
		"an open call with a huge message": {"/grpc.health.v1.Health/Check", "", "\x00\x7f\xff\xff\xff"},
		"an authenticated call":            {"/test.Service/Wait", "alice", "\x00\x7f\xff\xff\xff"},
		"a stream of reflection":           {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "alice", ""},
		"no token":                         {"/test.Service/Wait", "", message},
		"no such service":                  {"/no.Service/Wait", "alice", message},
	} {
		t.Run(name, func(t *testing.T) {
			body := &endless{prefix: tc.prefix}
			b.post(tc.method, tc.token, body)
			assert.Less(t, body.read.Load(), int64(4<<20), "bytes sent")
		})
	}
}

// A caller with the maximum number of calls in flight is refused with the name of the limit. Others are served.
func TestACallerHasNoMoreCallsInFlightThanItMay(t *testing.T) {
	w := &waiting{make(chan struct{})}
	b := serveBounded(t, w, func(c *controller.Services) { c.RequestLimits.CallsPerCaller = 3 })
	codes := make(chan string, 3)
	for range 3 {
		go func() {
			code, _ := b.post("/test.Service/Wait", "alice", strings.NewReader(message))
			codes <- code
		}()
	}
	require.Eventually(t, func() bool { return b.limits.calls.of("alice") == 3 }, 5*time.Second, time.Millisecond)
	code, text := b.post("/test.Service/Wait", "alice", strings.NewReader(message))
	assert.Equal(t, "8", code, "RESOURCE_EXHAUSTED")
	assert.Contains(t, text, "services.requestLimits.callsPerCaller is 3")
	code, _ = b.post("/no.Service/Wait", "bob", strings.NewReader(message))
	assert.Equal(t, "12", code, "another caller is answered")

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.address+"/wait", strings.NewReader("{}"))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer alice")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))

	close(w.end)
	for range 3 {
		assert.Equal(t, "0", <-codes)
	}
	require.Eventually(t, func() bool { return b.limits.calls.of("alice") == 0 }, 5*time.Second, time.Millisecond)
	code, _ = b.post("/test.Service/Wait", "alice", strings.NewReader(message))
	assert.Equal(t, "0", code)
}

// Streams of health need no token: an address has a maximum number, and the probe of REST works in addition.
func TestAnAddressHasNoMoreOpenStreamsThanItMay(t *testing.T) {
	b := serveBounded(t, &waiting{}, func(c *controller.Services) { c.RequestLimits.OpenCallsPerAddress = 2 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		resp, err := b.client.Do(b.request(ctx, "/grpc.health.v1.Health/Watch", "", strings.NewReader(message)))
		require.NoError(t, err)
		defer resp.Body.Close()
	}
	code, text := b.post("/grpc.health.v1.Health/Watch", "", strings.NewReader(message))
	assert.Equal(t, "8", code)
	assert.Contains(t, text, "services.requestLimits.openCallsPerAddress is 2")
	resp, err := http.Get("http://" + b.address + "/health")
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	cancel()
	require.Eventually(t, func() bool { return b.limits.open.of("127.0.0.1") == 0 }, 5*time.Second, time.Millisecond)
}

// of returns the count of a key.
func (p *Pool) of(key string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[key]
}

func TestAMessageThatIsTooLargeIsRefusedByItsField(t *testing.T) {
	b := serveBounded(t, &waiting{}, func(c *controller.Services) { c.MaxRequestBytes = 1024 })
	code, text := b.post("/test.Service/Wait", "alice", strings.NewReader("\x00\x00\x00\x04\x01"))
	assert.Equal(t, "3", code, "INVALID_ARGUMENT")
	assert.Contains(t, text, "request: is 1025 bytes, more than the 1024 of maxRequestBytes")
	code, text = b.post("/grpc.health.v1.Health/Watch", "", strings.NewReader("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	assert.Equal(t, "3", code, "the stream ends as soon as there is more than its request")
	assert.Contains(t, text, "more messages than the method accepts")
}
