// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"k8s.io/apiserver/pkg/authentication/user"

	"berth.dev/berth/apis/config/controller"
)

// restService is the label and log value of all REST calls. gRPC calls have the name of their service.
const restService = "rest"

// other replaces unknown services and methods, whose number callers could increase without limit.
const other = "other"

// isHealth reports whether a method is the health probe of REST.
func isHealth(method string) bool {
	return method == http.MethodGet+" "+healthPath || method == http.MethodGet+" "+healthzPath
}

// method is the type of a gRPC method.
type method struct{ streaming, clientStream bool }

// call is a call in progress.
type call struct {
	service, method string
	grpc            bool
	// streaming has messages in either direction, clientStream several requests.
	streaming, clientStream bool
	caller                  user.Info
	// request has the credentials that the caller was authenticated by, nil if it needs none.
	request *http.Request
	// browser is what a call of a page needs.
	browser browser
	// correlation is the correlation ID of the caller, "" if there is none.
	correlation string
	// warn passes to the caller what is wrong with the answer.
	warn func(context.Context, string)
	// bytes is what the body uses of the pool.
	bytes *account
	// cheap is a refusal without a request to the API server.
	cheap bool

	mu sync.Mutex // guards the rest: gRPC reads a body in its own goroutine
	// failure is the error with which the reader of the body ended the call. cancel ends the handler.
	failure *Error
	cancel  context.CancelFunc
	// authenticated is when the credentials were last reviewed.
	authenticated time.Time
}

// fail ends a call from the reader of its body: the error is the answer, whatever the service returns.
func (c *call) fail(e *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = e
		if c.cancel != nil {
			c.cancel()
		}
	}
}

// onFailure sets the function that ends the handler.
func (c *call) onFailure(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel = cancel; c.failure != nil {
		cancel()
	}
}

func (c *call) failed() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

type callKey struct{}

// callOf returns the call of a context, an empty one if there is none.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// Caller returns the user name of the caller of a context, "" if there is none.
func Caller(ctx context.Context) string {
	if c := callOf(ctx).caller; c != nil {
		return c.GetName()
	}
	return ""
}

func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// ServeHTTP answers a call. Authentication, timeouts and logs are the same for gRPC and REST.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	inFlight.Inc()
	defer inFlight.Dec()
	b, w, r := s.browser(w, r)
	c := s.identify(r)
	c.browser = b
	var problem string
	if c.correlation, problem = correlationOf(r); c.correlation != "" {
		w.Header().Set(correlationHeader, c.correlation) // first: refusals have it too
	}
	if problem != "" {
		addWarning(w.Header(), c, problem)
	}
	rec := &recorder{ResponseWriter: w}
	c.warn = s.warner(c, rec)
	defer func() {
		p := recover()
		if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares the value itself
			panic(p) // resets the stream without an answer
		}
		if p != nil {
			var err error
			s.recovered(context.WithValue(r.Context(), callKey{}, c), p, &err)
			s.refuse(rec, c, AsError(err))
		}
		c.browser.finish(rec)
		s.done(rec, r, c, time.Since(began))
	}()
	s.serve(rec, r, c)
}

func (s *Server) serve(w *recorder, r *http.Request, c *call) {
	ctx := context.WithValue(r.Context(), callKey{}, c)
	control := http.NewResponseController(w)
	if c.browser.preflight {
		_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
		s.origins.Preflight(w, r)
		return
	}
	deadline, leave, err := s.begin(ctx, r, c)
	if err != nil {
		s.note(ctx, err)
		s.turnAway(ctx, w, r, c, AsError(err))
		return
	}
	defer leave()
	s.limitBody(w, r, c, deadline)
	if c.grpc {
		if w.streaming = c.streaming; c.streaming {
			_ = control.SetWriteDeadline(time.Time{}) // each message has its own
		} else {
			_ = control.SetWriteDeadline(deadline.Add(time.Second))
		}
		// The transport ends a call without a status if its context ends, but not if its deadline is exceeded.
		left := max(time.Until(deadline).Milliseconds(), 1)
		r.Header.Set("Grpc-Timeout", strconv.FormatInt(left, 10)+"m")
		r = r.WithContext(ctx)
		r.Body = s.bounded(r.Body, c)
		s.grpc.ServeHTTP(w, r)
		if e := c.failed(); e != nil {
			s.refuse(w, c, e)
		}
		c.browser.finish(w)
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	// After the deadline: if a connection cannot be read any more, the caller counts as gone.
	_ = control.SetReadDeadline(deadline.Add(time.Second))
	_ = control.SetWriteDeadline(deadline.Add(time.Second))
	r.Body = http.MaxBytesReader(w, &counted{r.Body, c.bytes}, int64(s.bodyBytes(c)))
	s.rest.ServeHTTP(w, r.WithContext(ctx))
}

// begin decides whether a call is served, and its deadline. The caller is authenticated before the body is read. leave
// releases what the call uses.
func (s *Server) begin(ctx context.Context, r *http.Request, c *call) (deadline time.Time, leave func(), err error) {
	if c.browser.refused != nil {
		return deadline, nil, c.browser.refused
	}
	timeout, err := s.timeout(r, c)
	if err != nil {
		return deadline, nil, err
	}
	deadline = time.Now().Add(timeout)
	address := addressOf(r)
	if isHealth(c.method) {
		return deadline, func() {}, nil // it is answered immediately, whatever else is in flight
	}
	if s.open(c) {
		leave, err = s.admit(c, address)
		return deadline, leave, err
	}
	c.request = r
	within, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if c.caller, err = s.authenticate(within, c); err != nil {
		return deadline, nil, err
	}
	admitted, err := s.admit(c, address)
	if err != nil {
		return deadline, nil, err
	}
	release := connectionOf(ctx).hold()
	return deadline, func() { release(); admitted() }, nil
}

// turnAway refuses a call before it reaches a service. The number of refusals to peers that do not read is limited:
// further streams are reset.
func (s *Server) turnAway(ctx context.Context, w *recorder, r *http.Request, c *call, e *Error) {
	// The server does not wait for a caller that does not read its answer. The time begins with the answer: a review of the caller
	// that takes long must not leave none for the refusal.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	if c.browser.web != nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerTimeout))
	}
	if c.cheap = e.cheap; r.ProtoMajor < 2 {
		s.refuse(w, c, e)
		return
	}
	key := ""
	if conn := connectionOf(ctx); conn != nil {
		key = conn.id
	}
	if s.limits.answers.Take(key, 1) != nil {
		panic(http.ErrAbortHandler)
	}
	defer s.limits.answers.Free(key, 1)
	s.refuse(w, c, e)
	w.Flush()
	c.browser.finish(w)
}

// open reports whether a method needs no authentication: the probes of a kubelet have no token.
func (s *Server) open(c *call) bool {
	return c.service == healthService || s.openServices[c.service] || isHealth(c.method)
}

// timeout returns the timeout of a call, from the caller or the configuration.
func (s *Server) timeout(r *http.Request, c *call) (time.Duration, error) {
	t := s.timeouts.Load()
	usual, most := t.usual, t.most
	if c.streaming {
		usual, most = t.stream, t.stream
	}
	if s.open(c) {
		bound := openTimeout
		if c.streaming {
			bound = openStreamTimeout
		}
		usual, most = min(usual, bound), min(most, bound)
	}
	text := r.Header.Get("Grpc-Timeout")
	if !c.grpc || text == "" {
		return usual, nil
	}
	requested, err := parseTimeout(text)
	return min(requested, most), err
}

// timeouts are the default timeout of calls, their maximum, and that of streams.
type timeouts struct{ usual, most, stream time.Duration }

// Retune applies the timeouts and limits of a configuration to new calls.
func (s *Server) Retune(c *controller.Services) {
	s.limits.set(&c.RequestLimits)
	s.tokens.set(c.RequestLimits.UnknownTokensPerSecond, c.RequestLimits.UnknownTokensPerSecondPerAddress)
	s.setTimeouts(c)
}

func (s *Server) setTimeouts(c *controller.Services) {
	seconds := func(n int32) time.Duration { return time.Duration(n) * time.Second }
	s.timeouts.Store(
		&timeouts{usual: seconds(c.DefaultTimeoutSeconds), most: seconds(c.MaxTimeoutSeconds), stream: seconds(c.MaxStreamSeconds)},
	)
}

var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// parseTimeout parses a grpc-timeout: up to 8 digits and a unit. The result is at least a millisecond.
func parseTimeout(text string) (time.Duration, error) {
	malformed := Invalid(
		Violation{Field: "grpc-timeout", Description: fmt.Sprintf("%q must be up to 8 digits and one of H, M, S, m, u, n", text)},
	)
	if len(text) < 2 || len(text) > 9 {
		return 0, malformed
	}
	unit, known := timeoutUnits[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if !known || err != nil {
		return 0, malformed
	}
	const longest = 24 * time.Hour // more would overflow a Duration
	if n > uint64(longest/unit) {  //nolint:gosec // positive
		return longest, nil
	}
	return max(time.Duration(n)*unit, time.Millisecond), nil
}

// refuse answers a call instead of a service, or replaces the answer of the service if the body failed.
func (s *Server) refuse(w *recorder, c *call, e *Error) {
	if !c.grpc {
		if !w.wrote {
			writeError(w, e)
		}
		return
	}
	h := w.Header()
	if !w.wrote {
		h.Set("Content-Type", "application/grpc")
		if e.Code == codes.ResourceExhausted {
			h.Set(retryAfter, retrySeconds)
		}
		// An answer with only trailers would have no header for the correlation ID.
		h.Set("Trailer", "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin")
		w.WriteHeader(http.StatusOK)
		w.Flush()
	}
	h.Set("Grpc-Status", strconv.Itoa(int(e.Code)))
	h.Set("Grpc-Message", percentEncoded(e.Message))
	h.Del("Grpc-Status-Details-Bin")
	if len(e.Violations) > 0 {
		if b, err := proto.Marshal(e.GRPCStatus().Proto()); err == nil {
			h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(b))
		}
	}
}

// percentEncoded encodes a message for a header.
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

// done counts the call and logs it, never its content.
func (s *Server) done(w *recorder, r *http.Request, c *call, took time.Duration) {
	code := w.code(r, c)
	requests.WithLabelValues(c.service, c.method, CodeName(code)).Inc()
	durations.WithLabelValues(c.service, c.method).Observe(took.Seconds())
	level := 0
	if s.open(c) || c.browser.preflight || c.cheap && !s.limits.logged.Allow() {
		level = 4 // probes and preflights are frequent, and anyone can cause refusals
	}
	s.log.V(level).Info("Served a call", "service", c.service, "method", c.method, "code", CodeName(code),
		"caller", Caller(context.WithValue(r.Context(), callKey{}, c)), "duration", took.String(),
		"peer", r.RemoteAddr, "correlation", c.correlation)
}

// recorder records the answer of a call.
type recorder struct {
	http.ResponseWriter
	wrote  bool
	status int
	failed *Error
	// streaming limits the time of each message. sending is true while one is written.
	streaming, sending bool
}

// send sets the deadline of a message of a stream.
func (w *recorder) send() {
	if w.streaming && !w.sending {
		w.sending = true
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(sendTimeout))
	}
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
	w.send()
	return w.ResponseWriter.Write(b)
}

// Flush is required by gRPC.
func (w *recorder) Flush() {
	w.wrote = true
	w.send()
	control := http.NewResponseController(w.ResponseWriter)
	_ = control.Flush()
	if w.sending {
		w.sending = false
		_ = control.SetWriteDeadline(time.Time{})
	}
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
		return codes.Canceled // the connection is closed
	case c.grpc || w.status >= http.StatusBadRequest:
		return codes.Unknown
	}
	return codes.OK
}
