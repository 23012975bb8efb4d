// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apiserver/pkg/authentication/user"

	"berth.dev/berth/apis/config/controller"
)

// restService is the label and log value of all REST calls. gRPC calls have the name of their service.
const restService = "rest"

// other stands for what is not served, of which callers can make up any number.
const other = "other"

// call is a call while it is being answered.
type call struct {
	service, method string
	grpc, streaming bool
	caller          user.Info
	// correlation is what the caller calls this call, "" if they have no name for it.
	correlation string
}

type callKey struct{}

// callOf returns the call of a context, an empty one if there is none.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// Caller returns the name of who makes the call of a context, "" if it is none.
func Caller(ctx context.Context) string {
	if c := callOf(ctx).caller; c != nil {
		return c.GetName()
	}
	return ""
}

func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// ServeHTTP answers a call: who calls, how long it may take, and what is written down of it are the same for gRPC and REST.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	inFlight.Inc()
	defer inFlight.Dec()
	c := s.identify(r)
	c.correlation = correlationOf(r)
	if c.correlation != "" {
		w.Header().Set(correlationHeader, c.correlation) // before all else: refusals have it too
	}
	rec := &recorder{ResponseWriter: w}
	defer func() {
		if p := recover(); p != nil {
			var err error
			s.recovered(context.WithValue(r.Context(), callKey{}, c), p, &err)
			s.refuse(rec, c, AsError(err))
		}
		s.done(rec, r, c, time.Since(began))
	}()
	s.serve(rec, r, c)
}

func (s *Server) serve(w *recorder, r *http.Request, c *call) {
	ctx := context.WithValue(r.Context(), callKey{}, c)
	timeout, err := s.timeout(r, c)
	if err != nil {
		s.refuse(w, c, AsError(err))
		return
	}
	deadline := time.Now().Add(timeout)
	// The caller is found before anything is read of the body.
	if !s.open(c) {
		within, cancel := context.WithDeadline(ctx, deadline)
		c.caller, err = s.reviews.authenticate(within, r.Header, r.TLS)
		cancel()
		if err != nil {
			s.note(ctx, err)
			s.refuse(w, c, AsError(err))
			return
		}
	}
	if c.grpc {
		// The transport ends a call whose context ends without a status, but not one whose time is over.
		left := max(time.Until(deadline).Milliseconds(), 1)
		r.Header.Set("Grpc-Timeout", strconv.FormatInt(left, 10)+"m")
		s.grpc.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	// After the deadline: a connection that cannot be read any more counts as a caller who gave up.
	_ = http.NewResponseController(w).SetReadDeadline(deadline.Add(time.Second))
	r.Body = http.MaxBytesReader(w, r.Body, int64(s.config.MaxRequestBytes))
	s.rest.ServeHTTP(w, r.WithContext(ctx))
}

// open says what can be called by anybody: the probes of a kubelet have no token.
func (s *Server) open(c *call) bool {
	return c.service == healthService || s.openServices[c.service] || c.method == http.MethodGet+" "+healthPath
}

// timeout returns how long the call may take, as the caller or the configuration says.
func (s *Server) timeout(r *http.Request, c *call) (time.Duration, error) {
	t := s.timeouts.Load()
	usual, most := t.usual, t.most
	if c.streaming {
		usual, most = t.stream, t.stream
	}
	text := r.Header.Get("Grpc-Timeout")
	if !c.grpc || text == "" {
		return usual, nil
	}
	asked, err := parseTimeout(text)
	return min(asked, most), err
}

// timeouts are how long calls may take: those that do not say, the others, and streams.
type timeouts struct{ usual, most, stream time.Duration }

// SetTimeouts has calls that begin from now on go by the timeouts of a configuration.
func (s *Server) SetTimeouts(c *controller.Services) {
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	s.timeouts.Store(&timeouts{usual: seconds(c.DefaultTimeoutSeconds), most: seconds(c.MaxTimeoutSeconds), stream: seconds(c.MaxStreamSeconds)})
}

var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// parseTimeout reads a grpc-timeout: up to 8 digits and a unit. The result is at least a millisecond.
func parseTimeout(text string) (time.Duration, error) {
	malformed := Invalid(Violation{Field: "grpc-timeout", Description: fmt.Sprintf("%q is not up to 8 digits and one of H, M, S, m, u, n", text)})
	if len(text) < 2 || len(text) > 9 {
		return 0, malformed
	}
	unit, known := timeoutUnits[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if !known || err != nil {
		return 0, malformed
	}
	const longest = 24 * time.Hour // more would not fit in a Duration
	if n > uint64(longest/unit) {  //nolint:gosec // positive
		return longest, nil
	}
	return max(time.Duration(n)*unit, time.Millisecond), nil
}

// refuse answers a call that did not get as far as a service.
func (s *Server) refuse(w *recorder, c *call, e *Error) {
	if w.wrote {
		return
	}
	if !c.grpc {
		writeError(w, e)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	if c.correlation != "" {
		// An answer of trailers only would have no header for it.
		h.Set("Trailer", "Grpc-Status, Grpc-Message")
		w.WriteHeader(http.StatusOK)
		w.Flush()
	}
	h.Set("Grpc-Status", strconv.Itoa(int(e.Code)))
	h.Set("Grpc-Message", percentEncoded(e.Message))
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
}

// percentEncoded writes a message as a header can have it.
func percentEncoded(message string) string {
	var b strings.Builder
	for i := range len(message) {
		if ch := message[i]; ch >= ' ' && ch <= '~' && ch != '%' {
			b.WriteByte(ch)
		} else {
			fmt.Fprintf(&b, "%%%02X", ch)
		}
	}
	return b.String()
}

// done counts the call and writes it down: never what it carried.
func (s *Server) done(w *recorder, r *http.Request, c *call, took time.Duration) {
	code := w.code(r, c)
	requests.WithLabelValues(c.service, c.method, codeName(code)).Inc()
	durations.WithLabelValues(c.service, c.method).Observe(took.Seconds())
	level := 0
	if s.open(c) {
		level = 4 // probes come every few seconds
	}
	s.log.V(level).Info("Served a call", "service", c.service, "method", c.method, "code", codeName(code),
		"caller", Caller(context.WithValue(r.Context(), callKey{}, c)), "duration", took.String(), "peer", r.RemoteAddr, "correlation", c.correlation)
}

// recorder remembers how a call was answered.
type recorder struct {
	http.ResponseWriter
	wrote  bool
	status int
	failed *Error
}

func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.wrote, w.status = true, status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if !w.wrote {
		w.wrote, w.status = true, http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Flush is what gRPC demands of a writer.
func (w *recorder) Flush() {
	w.wrote = true
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorder) code(r *http.Request, c *call) codes.Code {
	switch {
	case w.failed != nil:
		return w.failed.Code
	case c.grpc && w.Header().Get("Grpc-Status") != "":
		return codeOfText(w.Header().Get("Grpc-Status"))
	case r.Context().Err() != nil:
		return codes.Canceled // the connection is gone
	case c.grpc || w.status >= http.StatusBadRequest:
		return codes.Unknown
	}
	return codes.OK
}
