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

// unsupported is the API server's answer to a watch that is to begin with a
// list, where it does not offer that. Reflectors then list.
const unsupported = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is not supported"}`

// listOnce makes the clients of a configuration list only: a watch is answered
// here, by a stream on which nothing ever happens, so an informer fills its
// store with one list and no right but that one is needed.
func listOnce(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// One list per kind, bounded by the context: the server's priority and
	// fairness is limit enough.
	cfg.QPS, cfg.RateLimiter, cfg.Timeout = -1, nil, 0
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &lister{next: next} })
	return cfg
}

type lister struct{ next http.RoundTripper }

// RoundTrip passes lists on and answers everything else itself.
func (l *lister) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return nil, fmt.Errorf("a replay does not write: %s %s", req.Method, req.URL.Path)
	}
	query := req.URL.Query()
	if watch, _ := strconv.ParseBool(query.Get("watch")); watch {
		if query.Get("sendInitialEvents") != "" {
			return respond(req, http.StatusUnprocessableEntity, io.NopCloser(strings.NewReader(unsupported))), nil
		}
		return respond(req, http.StatusOK, silence(req.Context())), nil
	}
	if query.Get("resourceVersion") == "0" {
		// Reflectors take any age; an answer about now wants no less than now.
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

// silence is a body that blocks until it is closed or the context ends. Either
// way it then ends as a watch does that the server closed.
func silence(ctx context.Context) io.ReadCloser {
	r, w := io.Pipe()
	return &silent{Reader: r, end: w, stop: context.AfterFunc(ctx, func() { _ = w.Close() })}
}

type silent struct {
	io.Reader
	end  io.Closer
	stop func() bool
}

// Close wakes the reader.
func (s *silent) Close() error {
	s.stop()
	return s.end.Close()
}
