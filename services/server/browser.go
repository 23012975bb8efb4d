// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"berth.dev/berth/internal/kube/grpcweb"
)

// browser is what distinguishes the call of a page in a browser. It is empty for other calls.
type browser struct {
	// preflight is the request by which a browser finds out whether a page may call.
	preflight bool
	// web writes the response of a gRPC-Web call, nil for other calls.
	web *grpcweb.Writer
	// refused is the answer to a page that may not call, and to a form of gRPC-Web that is not served.
	refused *Error
}

// browser translates a gRPC-Web call to gRPC, and returns the writer and the request of it. From then on it is a gRPC call, with the same
// authentication, limits and interceptors.
func (s *Server) browser(w http.ResponseWriter, r *http.Request) (browser, http.ResponseWriter, *http.Request) {
	var b browser
	if s.origins == nil {
		return b, w, r
	}
	if b.preflight = grpcweb.IsPreflight(r); b.preflight {
		return b, w, r
	}
	if !s.origins.Call(w, r) {
		b.refused = Refuse(codes.PermissionDenied,
			fmt.Sprintf("pages of origin %.256q may not call: services.grpcWeb.allowedOrigins does not have it", r.Header.Get("Origin")))
		b.refused.cheap = true
	}
	if !grpcweb.Is(r) {
		return b, w, r
	}
	web, call, err := grpcweb.Translate(w, r)
	if unsupported, ok := errors.AsType[*grpcweb.UnsupportedError](err); ok {
		b.refused = &Error{Code: codes.InvalidArgument, HTTPStatus: unsupported.Status, Message: unsupported.Error(), cheap: true}
		return b, w, r
	}
	b.web = web
	return b, web, call
}

// finish writes the trailers of a gRPC-Web call. The body has them, so a caller that does not read can delay them.
func (b *browser) finish(w *recorder) {
	if b.web == nil {
		return
	}
	if w.streaming {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTimeout))
	}
	b.web.Finish()
}

// limitBody limits the time in which the body of a gRPC-Web call arrives. HTTP/1 reads the rest of a body before the response, so a slow
// body would delay it, even that of a stream.
func (s *Server) limitBody(w http.ResponseWriter, r *http.Request, c *call, deadline time.Time) {
	if c.browser.web == nil {
		return
	}
	control := http.NewResponseController(w)
	arrived := deadline.Add(time.Second)
	if c.streaming {
		arrived = time.Now().Add(min(s.timeouts.Load().most, time.Until(deadline)) + time.Second)
	}
	_ = control.SetReadDeadline(arrived)
	r.Body = &arriving{r.Body, func() { _ = control.SetReadDeadline(deadline.Add(time.Second)) }}
}

// arriving is a body that calls a function at its end.
type arriving struct {
	io.ReadCloser
	arrived func()
}

// Read reads until the end.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		a.arrived()
	}
	return n, err
}
