// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/config/controller"
)

// A review of the caller that takes as long as it may leaves time for the refusal: clients retry UNAVAILABLE, and not the INTERNAL of
// a stream that was reset.
func TestACallerThatCannotBeReviewedIsAnswered(t *testing.T) {
	t.Parallel() // it takes as long as a review may
	stop := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(api.Close)
	t.Cleanup(func() { close(stop) })
	s, err := New(controller.Default().Services, &rest.Config{Host: api.URL}, logr.Discard())
	require.NoError(t, err)
	s.Register(&grpc.ServiceDesc{ServiceName: "test.S", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		Unary("Call", panicking.call),
	}}, panicking{})
	conn := dial(t, served(t, s))
	var calls errgroup.Group
	answers := make([]error, 8)
	for i := range answers {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", fmt.Sprint("Bearer ", i))
		calls.Go(func() error {
			answers[i] = conn.Invoke(ctx, "/test.S/Call", &emptypb.Empty{}, &emptypb.Empty{})
			return nil
		})
	}
	require.NoError(t, calls.Wait())
	for _, err := range answers {
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.Contains(t, err.Error(), "the API server is unavailable")
	}
}

// Each limit that a refusal names, and that can be configured, is a field of the configuration.
func TestARefusalNamesAFieldOfTheConfiguration(t *testing.T) {
	c := controller.Default().Services
	l := newLimits(&c)
	tokens := newTokens("services.requestLimits", 0, nil)
	text, err := json.Marshal(map[string]any{"services": c})
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(text, &root))
	limits := []*Limit{l.connections, tokens.fieldAll, tokens.fieldAddress}
	for _, p := range []*Pool{l.calls, l.streams, l.open, l.reviewing} {
		limits = append(limits, p.total, p.perKey)
	}
	named := map[string]bool{}
	for _, limit := range limits {
		var at any = root
		for part := range strings.SplitSeq(limit.Name, ".") {
			object, _ := at.(map[string]any)
			require.Contains(t, object, part, limit.Name)
			at = object[part]
		}
		named[limit.Name] = true
	}
	assert.Len(t, named, reflect.TypeFor[controller.RequestLimits]().NumField(), "every field is the limit of something")
}

func TestTextWithANULIsRefused(t *testing.T) {
	_, conn := handling(t, func() *Server {
		s, _ := logging(t)
		s.reviews.authn = users(func(http.Header) (string, bool) { return "alice", true })
		s.Register(&grpc.ServiceDesc{ServiceName: "test.S", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
			Unary("Call", func(panicking, context.Context, *healthpb.HealthCheckRequest) (*emptypb.Empty, error) {
				return &emptypb.Empty{}, nil
			}),
		}}, panicking{})
		return s
	}())
	require.NoError(t, conn.Invoke(t.Context(), "/test.S/Call", &healthpb.HealthCheckRequest{Service: "a"}, &emptypb.Empty{}))
	err := conn.Invoke(t.Context(), "/test.S/Call", &healthpb.HealthCheckRequest{Service: "a\x00b"}, &emptypb.Empty{})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	require.Contains(t, err.Error(), "service: has the character U+0000")
}

func TestABodyThatCannotBeStoredAsItIsIsRefused(t *testing.T) {
	for body, says := range map[string]string{
		"{\"a\":\"\xff\"}":          "body: is not UTF-8",
		`{"a":"x\u0000"}`:           "body: has the character U+0000",
		`{"a":"\\\u0000"}`:          "body: has the character U+0000",
		`{"a":"\\u0000"}`:           "",
		"{\"a\":\"\u00e4 \ufffd\"}": "",
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		err := ReadJSON(r, &struct {
			A string `json:"a"`
		}{})
		if says == "" {
			require.NoError(t, err, body)
			continue
		}
		require.EqualError(t, err, "INVALID_ARGUMENT: "+says, body)
	}
}

func TestTheHealthOfRESTNeedsNoToken(t *testing.T) {
	s, _ := logging(t)
	h, _ := handling(t, s)
	for _, path := range []string{"/health", "/healthz"} {
		resp, err := h.Client().Get(h.URL + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
	}
}
