// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// unsupported is the API server's response to a watch that begins with a list if it does not support that. Reflectors
// then list.
const unsupported = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid",` +
	`"code":422,"message":"sendInitialEvents is not supported"}`

// listOnce limits the clients of a configuration to lists. A watch is answered here, by a stream without events, so an
// informer fills its store with one list and requires no other permission.
func listOnce(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// One list per kind, bounded by the context: the API server's priority and fairness limits the rate.
	cfg.QPS, cfg.RateLimiter, cfg.Timeout = -1, nil, 0
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &lister{next: next} })
	return cfg
}

type lister struct{ next http.RoundTripper }

// RoundTrip forwards lists and answers everything else itself.
func (l *lister) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return nil, fmt.Errorf("a replay does not write: %s %s", req.Method, req.URL.Path)
	}
	query := req.URL.Query()
	if watch, _ := strconv.ParseBool(query.Get("watch")); watch {
		if query.Get("sendInitialEvents") != "" {
			return respond(req, http.StatusUnprocessableEntity, io.NopCloser(strings.NewReader(unsupported))), nil
		}
		return respond(req, http.StatusOK, idle(req.Context())), nil
	}
	if query.Get("resourceVersion") == "0" {
		// Reflectors accept any age, but the answer is about the current state.
		query.Del("resourceVersion")
		req = req.Clone(req.Context())
		req.URL.RawQuery = query.Encode()
	}
	return l.next.RoundTrip(req)
}

func respond(req *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: req, Body: body, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
	}
}

// idle is a body that blocks until it is closed or the context ends. In both cases it ends like a watch that the server
// closed.
func idle(ctx context.Context) io.ReadCloser {
	r, w := io.Pipe()
	return &idleBody{Reader: r, end: w, stop: context.AfterFunc(ctx, func() { _ = w.Close() })}
}

type idleBody struct {
	io.Reader
	end  io.Closer
	stop func() bool
}

// Close unblocks the reader.
func (s *idleBody) Close() error {
	s.stop()
	return s.end.Close()
}
