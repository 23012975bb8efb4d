// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth.dev/berth/apis/config/controller"
)

const page = "https://ui.example"

// echo answers with what a caller sent.
func (*waiting) echo(ctx context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	deadline, _ := ctx.Deadline()
	switch in.Value {
	case "fail":
		return nil, InvalidField("name", "is é\nwrong")
	case "panic":
		panic("of gRPC-Web")
	case "deadline":
		return wrapperspb.String(fmt.Sprint(time.Until(deadline) < 5*time.Second)), nil
	}
	Warn(ctx, "a warning")
	return wrapperspb.String(Caller(ctx) + " " + in.Value), nil
}

func (*waiting) count(_ context.Context, in *wrapperspb.Int32Value, send func(*wrapperspb.Int32Value) error) error {
	for i := range in.Value {
		if err := send(wrapperspb.Int32(i)); err != nil {
			return err
		}
	}
	if in.Value > 3 {
		return Invalid(Violation{Field: "value", Description: "is more than 3"})
	}
	return nil
}

// serveBrowsers serves gRPC-Web to pages of one origin, unless it is changed.
func serveBrowsers(t *testing.T, changes ...func(*controller.Services)) *bounded {
	t.Helper()
	allow := func(c *controller.Services) {
		c.GRPCWeb.Enabled, c.GRPCWeb.AllowedOrigins = true, []string{page}
	}
	return serveBounded(t, &waiting{make(chan struct{})}, append([]func(*controller.Services){allow}, changes...)...)
}

// versions are clients of each version of HTTP: browsers speak HTTP/1.1 without TLS.
func (b *bounded) versions() map[string]*http.Client {
	one := &http.Transport{}
	b.t.Cleanup(one.CloseIdleConnections)
	return map[string]*http.Client{"HTTP/1.1": {Transport: one}, "HTTP/2": b.client}
}

// fetched is a response as a page sees it.
type fetched struct {
	*http.Response
	messages [][]byte
	trailers map[string]string
	body     string
}

// fetch sends what a browser sends for a page.
func (b *bounded) fetch(client *http.Client, method, path, contentType, token string, body io.Reader, headers ...string) fetched {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+b.address+path, body)
	require.NoError(b.t, err)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	f := fetched{Response: resp, body: string(read), trailers: map[string]string{}}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/grpc-web") {
		f.split(b.t)
	}
	return f
}

// split reads the frames of a body.
func (f *fetched) split(t *testing.T) {
	t.Helper()
	rest := []byte(f.body)
	if strings.Contains(f.Header.Get("Content-Type"), "-text") {
		rest = nil
		for group := range slices.Chunk([]byte(f.body), 4) { // any group may be padded
			decoded, err := base64.StdEncoding.DecodeString(string(group))
			require.NoError(t, err)
			rest = append(rest, decoded...)
		}
	}
	for len(rest) > 0 {
		require.GreaterOrEqual(t, len(rest), messageHeader)
		size := int(binary.BigEndian.Uint32(rest[1:messageHeader]))
		require.GreaterOrEqual(t, len(rest), messageHeader+size)
		frame := rest[messageHeader : messageHeader+size]
		if rest[0]&0x80 == 0 {
			require.Empty(t, f.trailers, "trailers are last")
			f.messages = append(f.messages, frame)
		} else {
			for line := range strings.SplitSeq(strings.TrimSuffix(string(frame), "\r\n"), "\r\n") {
				key, value, _ := strings.Cut(line, ": ")
				f.trailers[key] = value
			}
		}
		rest = rest[messageHeader+size:]
	}
}

// frame is a message as it is sent.
func frame(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// A client that is not ours: the library of Connect.
func unaryClient[Q, R any](b *bounded, client *http.Client, method string) func(token string, in *Q) (*connect.Response[R], error) {
	c := connect.NewClient[Q, R](client, "http://"+b.address+method, connect.WithGRPCWeb())
	return func(token string, in *Q) (*connect.Response[R], error) {
		r := connect.NewRequest(in)
		if token != "" {
			r.Header().Set("Authorization", "Bearer "+token)
		}
		return c.CallUnary(b.t.Context(), r)
	}
}

func TestAClientOfGRPCWebCallsAsAClientOfGRPC(t *testing.T) {
	b := serveBrowsers(t)
	for version, client := range b.versions() {
		t.Run(version, func(t *testing.T) {
			call := unaryClient[wrapperspb.StringValue, wrapperspb.StringValue](b, client, "/test.Service/Echo")
			counted := requests.WithLabelValues("test.Service", "Echo", "OK")
			before := testutil.ToFloat64(counted)
			resp, err := call("alice", wrapperspb.String("hello"))
			require.NoError(t, err)
			assert.Equal(t, "alice hello", resp.Msg.Value, "the caller is authenticated")
			assert.Equal(t, "a warning", resp.Header().Get("Berth-Warning"))
			assert.InDelta(t, before+1, testutil.ToFloat64(counted), 0, "it is counted")
			resp, err = call("alice", wrapperspb.String(strings.Repeat("x", 100000)))
			require.NoError(t, err)
			assert.Len(t, resp.Msg.Value, 100006)

			_, err = call("alice", wrapperspb.String("fail"))
			require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, "name: is é\nwrong")
			failed, ok := errors.AsType[*connect.Error](err)
			require.True(t, ok)
			require.Len(t, failed.Details(), 1)
			detail, err := failed.Details()[0].Value()
			require.NoError(t, err)
			assert.Equal(t, "name", detail.(*errdetails.BadRequest).FieldViolations[0].Field)

			_, err = call("alice", wrapperspb.String("panic"))
			require.Equal(t, connect.CodeInternal, connect.CodeOf(err), "%v", err)
			_, err = call("", wrapperspb.String("hello"))
			require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err), "%v", err)
			_, err = unaryClient[emptypb.Empty, emptypb.Empty](b, client, "/no.Service/Call")("alice", &emptypb.Empty{})
			require.Equal(t, connect.CodeUnimplemented, connect.CodeOf(err), "%v", err)
		})
	}
}

func TestAStreamOfGRPCWeb(t *testing.T) {
	b := serveBrowsers(t)
	for version, client := range b.versions() {
		t.Run(version, func(t *testing.T) {
			c := connect.NewClient[wrapperspb.Int32Value, wrapperspb.Int32Value](client, "http://"+b.address+"/test.Service/Count", connect.WithGRPCWeb())
			count := func(n int32) (got []int32, err error) {
				r := connect.NewRequest(wrapperspb.Int32(n))
				r.Header().Set("Authorization", "Bearer alice")
				stream, err := c.CallServerStream(t.Context(), r)
				require.NoError(t, err)
				defer stream.Close()
				for stream.Receive() {
					got = append(got, stream.Msg().Value)
				}
				return got, stream.Err()
			}
			got, err := count(3)
			require.NoError(t, err)
			assert.Equal(t, []int32{0, 1, 2}, got)
			got, err = count(5)
			assert.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "an error after messages")
			assert.Equal(t, []int32{0, 1, 2, 3, 4}, got)

			watch := connect.NewClient[healthpb.HealthCheckRequest, healthpb.HealthCheckResponse](
				client, "http://"+b.address+"/grpc.health.v1.Health/Watch", connect.WithGRPCWeb())
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := watch.CallServerStream(ctx, connect.NewRequest(&healthpb.HealthCheckRequest{}))
			require.NoError(t, err)
			require.True(t, stream.Receive(), "a message comes before the end")
			assert.Equal(t, healthpb.HealthCheckResponse_SERVING, stream.Msg().Status)
			cancel()
			require.Eventually(t, func() bool { return b.limits.open.of("127.0.0.1") == 0 }, 5*time.Second, time.Millisecond, "the caller is gone")
			_ = stream.Close()
		})
	}
}

// The text form, of which the generated clients of grpc-web make streams.
func TestTheTextForm(t *testing.T) {
	b := serveBrowsers(t)
	for version, client := range b.versions() {
		t.Run(version, func(t *testing.T) {
			send := func(path string, in proto.Message) fetched {
				body := base64.StdEncoding.EncodeToString(frame(t, in))
				return b.fetch(client, http.MethodPost, path, "application/grpc-web-text", "alice", strings.NewReader(body), "Origin", page)
			}
			f := send("/test.Service/Count", wrapperspb.Int32(4))
			require.Len(t, f.messages, 4, f.body)
			assert.Equal(t, "3", f.trailers["grpc-status"])
			assert.Equal(t, "value: is more than 3", f.trailers["grpc-message"])
			assert.NotEmpty(t, f.trailers["grpc-status-details-bin"])
			assert.Equal(t, page, f.Header.Get("Access-Control-Allow-Origin"))
			f = send("/test.Service/Echo", wrapperspb.String("hi"))
			assert.Equal(t, "0", f.trailers["grpc-status"])
			assert.Contains(t, string(f.messages[0]), "alice hi")

			f = b.fetch(client, http.MethodPost, "/test.Service/Echo", "application/grpc-web-text", "alice", strings.NewReader("AAA*"))
			assert.Equal(t, "3", f.trailers["grpc-status"])
			assert.Contains(t, f.trailers["grpc-message"], "request: is not base64")
		})
	}
}

// A refusal has no message, only trailers, in the form of the call.
func TestRefusalsOfGRPCWeb(t *testing.T) {
	b := serveBrowsers(t, func(c *controller.Services) { c.MaxRequestBytes = 1024 })
	const binaryType = "application/grpc-web+proto"
	for version, client := range b.versions() {
		for name, tc := range map[string]struct {
			path, token, body, code, text string
			headers                       []string
		}{
			"no token":           {path: "/test.Service/Echo", body: message, code: "16", text: "missing credentials"},
			"a large message":    {"/test.Service/Echo", "alice", "\x00\x00\x00\x04\x01", "3", "request: is 1025 bytes, more than the 1024 of maxRequestBytes", nil},
			"two messages":       {"/grpc.health.v1.Health/Watch", "", message + message, "3", "more messages than the method accepts", nil},
			"no message":         {"/test.Service/Count", "alice", "", "13", "", nil},
			"a part of one":      {"/test.Service/Count", "alice", "\x00\x00", "13", "", nil},
			"no such method":     {"/test.Service/No", "alice", message, "12", "", nil},
			"a malformed time":   {"/test.Service/Echo", "alice", message, "3", "grpc-timeout", []string{"Grpc-Timeout", "soon"}},
			"a page that is not": {"/test.Service/Echo", "alice", message, "7", "pages of origin", []string{"Origin", "https://evil.example"}},
		} {
			t.Run(name+" "+version, func(t *testing.T) {
				f := b.fetch(client, http.MethodPost, tc.path, binaryType, tc.token, strings.NewReader(tc.body), tc.headers...)
				assert.Equal(t, http.StatusOK, f.StatusCode)
				assert.Equal(t, binaryType, f.Header.Get("Content-Type"))
				assert.Empty(t, f.messages)
				assert.Equal(t, tc.code, f.trailers["grpc-status"], "%v", f.trailers)
				assert.Contains(t, f.trailers["grpc-message"], tc.text)
				if len(tc.headers) > 0 && tc.headers[0] == "Origin" {
					assert.NotContains(t, f.Header, "Access-Control-Allow-Origin")
				}
			})
		}
	}
}

func TestFormsOfGRPCWebThatAreNotServed(t *testing.T) {
	b := serveBrowsers(t)
	for version, client := range b.versions() {
		f := b.fetch(client, http.MethodPost, "/test.Service/Echo", "application/grpc-web+json", "alice", strings.NewReader("{}"))
		assert.Equal(t, http.StatusUnsupportedMediaType, f.StatusCode, version)
		assert.Contains(t, f.body, "must be application/grpc-web+proto or application/grpc-web-text+proto", version)
		f = b.fetch(client, http.MethodPut, "/test.Service/Echo", "application/grpc-web", "alice", strings.NewReader(message))
		assert.Equal(t, http.StatusMethodNotAllowed, f.StatusCode, version)
	}
}

func TestTheDeadlineOfAPage(t *testing.T) {
	b := serveBrowsers(t)
	for version, client := range b.versions() {
		in := bytes.NewReader(frame(t, wrapperspb.String("deadline")))
		f := b.fetch(client, http.MethodPost, "/test.Service/Echo", "application/grpc-web", "alice", in, "Grpc-Timeout", "4S")
		require.Len(t, f.messages, 1, version)
		assert.Contains(t, string(f.messages[0]), "true", version)
		f = b.fetch(client, http.MethodPost, "/test.Service/Wait", "application/grpc-web", "alice", strings.NewReader(message), "Grpc-Timeout", "50m")
		assert.Equal(t, "4", f.trailers["grpc-status"], version)
	}
}

// A browser sends a preflight without credentials.
func TestPreflightsNeedNoToken(t *testing.T) {
	b := serveBrowsers(t)
	for version, client := range b.versions() {
		ask := func(origin string) fetched {
			return b.fetch(client, http.MethodOptions, "/test.Service/Echo", "", "", http.NoBody, "Origin", origin,
				"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,x-grpc-web")
		}
		f := ask(page)
		assert.Equal(t, http.StatusNoContent, f.StatusCode, version)
		assert.Equal(t, page, f.Header.Get("Access-Control-Allow-Origin"), version)
		assert.Contains(t, f.Header.Get("Vary"), "Origin", version)
		f = ask("https://evil.example")
		assert.NotContains(t, f.Header, "Access-Control-Allow-Origin", version)

		f = b.fetch(client, http.MethodGet, "/nothing", "", "alice", http.NoBody, "Origin", page)
		assert.Equal(t, page, f.Header.Get("Access-Control-Allow-Origin"), "REST "+version)
		f = b.fetch(client, http.MethodPost, "/wait", "application/json", "alice", strings.NewReader("{}"), "Origin", "https://evil.example")
		assert.Equal(t, http.StatusForbidden, f.StatusCode, "REST "+version)
		assert.Contains(t, f.body, "services.grpcWeb.allowedOrigins", "REST "+version)
	}
}

func TestGRPCWebIsOffByDefault(t *testing.T) {
	b := serveBounded(t, &waiting{})
	client := b.versions()["HTTP/1.1"]
	f := b.fetch(client, http.MethodPost, "/test.Service/Echo", "application/grpc-web", "alice", strings.NewReader(message), "Origin", page)
	assert.Equal(t, http.StatusNotFound, f.StatusCode)
	assert.NotContains(t, f.Header, "Access-Control-Allow-Origin")
	f = b.fetch(client, http.MethodOptions, "/test.Service/Echo", "", "", http.NoBody, "Origin", page, "Access-Control-Request-Method", "POST")
	assert.Equal(t, http.StatusUnauthorized, f.StatusCode)
}

// As TestABodyWithoutAnEndIsNotKept, for both forms and versions of HTTP.
func TestABodyOfAPageWithoutAnEndIsNotKept(t *testing.T) {
	b := serveBrowsers(t)
	const huge = "\x00\x7f\xff\xff\xff"
	for version, client := range b.versions() {
		for name, tc := range map[string]struct{ method, token, form, prefix string }{
			"an open stream":       {"/grpc.health.v1.Health/Watch", "", "", message},
			"an open call":         {"/grpc.health.v1.Health/Check", "", "", huge},
			"a call":               {"/test.Service/Echo", "alice", "", huge},
			"no token":             {"/test.Service/Echo", "", "", message},
			"reflection":           {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "alice", "", ""},
			"a call of text":       {"/test.Service/Echo", "alice", "-text", base64.StdEncoding.EncodeToString([]byte(huge + "\x00"))},
			"no text":              {"/test.Service/Echo", "alice", "-text", ""},
			"text without a token": {"/test.Service/Echo", "", "-text", ""},
		} {
			t.Run(name+" "+version, func(t *testing.T) {
				body := &endless{prefix: tc.prefix}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				r := b.request(ctx, tc.method, tc.token, io.NopCloser(body))
				r.Header.Set("Content-Type", "application/grpc-web"+tc.form)
				if resp, err := client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				require.NoError(t, ctx.Err(), "the call ends")
				assert.Less(t, body.read.Load(), int64(16<<20), "bytes sent, with the buffers of the kernel")
			})
		}
	}
	for name, pool := range map[string]*Pool{"calls": b.limits.calls, "streams": b.limits.streams, "open": b.limits.open, "bytes": b.limits.bytes} {
		require.Eventually(t, func() bool { return pool.of("alice") == 0 && pool.of("127.0.0.1") == 0 }, 5*time.Second, time.Millisecond, name)
	}
}

// HTTP/1 reads the rest of a body before a response. A body that never comes holds a call up until its deadline, and no longer.
func TestABodyThatDoesNotComeEndsWithItsDeadline(t *testing.T) {
	b := serveBrowsers(t, func(c *controller.Services) { c.DefaultTimeoutSeconds, c.MaxTimeoutSeconds = 1, 1 })
	for _, method := range []string{"/test.Service/Echo", "/test.Service/Count", "/grpc.health.v1.Health/Watch"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.address)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: b\r\nContent-Type: application/grpc-web\r\nAuthorization: Bearer alice\r\n"+
			"Content-Length: 1000\r\n\r\n\x00\x00\x00\x00", method)
		require.NoError(t, err)
		_, err = io.ReadAll(conn)
		require.NoError(t, err, "the server closes the connection of %s", method)
	}
	require.Eventually(t, func() bool {
		return b.limits.calls.of("alice") == 0 && b.limits.streams.of("alice") == 0 && b.limits.open.of("127.0.0.1") == 0
	}, 5*time.Second, time.Millisecond)
}
