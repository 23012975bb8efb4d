// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// unsupported is the API server's response to a watch that begins with a list if it does not support that. Reflectors
// then list.
const unsupported = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid",` +
	`"code":422,"message":"sendInitialEvents is not supported"}`

// listOnce limits the clients of a configuration to lists. A watch is answered here, by a stream without events, so an
// informer fills its store with one list and requires no other permission. The timeout of the configuration bounds how long the
// API server may send nothing while it answers a list. The whole of a long list may take longer.
func listOnce(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	silence := cfg.Timeout
	// One list per kind: the API server's priority and fairness limits the rate.
	cfg.QPS, cfg.RateLimiter, cfg.Timeout = -1, nil, 0
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &lister{next: next, silence: silence} })
	return cfg
}

type lister struct {
	next http.RoundTripper
	// silence is how long the API server may send nothing, 0 for any time.
	silence time.Duration
}

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
	if l.silence == 0 {
		return l.next.RoundTrip(req)
	}
	return l.attend(req)
}

// errSilent is the error of a request during which the API server sent nothing for too long.
var errSilent = fmt.Errorf("the API server sent nothing for too long: %w", context.DeadlineExceeded)

// attend ends a request during which the API server sends nothing for too long. An API server that stalls would otherwise hold the
// caller until it goes on, and its late answer would look like any other one.
func (l *lister) attend(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	a := &attended{ctx: ctx, cancel: cancel, silence: l.silence, timer: time.AfterFunc(l.silence, func() { cancel(errSilent) })}
	resp, err := l.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		a.end()
		return nil, a.explain(err)
	}
	a.ReadCloser, resp.Body = resp.Body, a
	return resp, nil
}

// attended is the body of a response that has to go on.
type attended struct {
	io.ReadCloser
	ctx     context.Context //nolint:containedctx // that of the request, which lasts as long as its response
	cancel  context.CancelCauseFunc
	silence time.Duration
	timer   *time.Timer
}

// Read reads what has arrived.
func (a *attended) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.timer.Reset(a.silence)
	return n, a.explain(err)
}

// Close ends the request.
func (a *attended) Close() error {
	a.end()
	return a.ReadCloser.Close()
}

func (a *attended) end() {
	a.timer.Stop()
	a.cancel(nil)
}

// explain returns the cause of an error that the silence of the API server is the cause of.
func (a *attended) explain(err error) error {
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(a.ctx), errSilent) {
		return errSilent
	}
	return err
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
