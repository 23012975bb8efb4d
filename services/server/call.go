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

// other stands for what is not served, of which callers can make up any number.
const other = "other"

// healthMethod is the probe of REST.
const healthMethod = http.MethodGet + " " + healthPath

// method is how a gRPC method is called.
type method struct{ streaming, clientStream bool }

// call is a call while it is being answered.
type call struct {
	service, method string
	grpc            bool
	// streaming has messages in either direction, clientStream several requests.
	streaming, clientStream bool
	caller                  user.Info
	// credentials are what the caller was authenticated by.
	credentials *credentials
	// correlation is what the caller calls this call, "" if they have no name for it.
	correlation string
	// bytes is what is kept of the body.
	bytes *account
	// cheap is a refusal for which nothing was requested of the API server.
	cheap bool

	mu sync.Mutex // guards the rest: gRPC reads a body in a goroutine of its own
	// failure is what the reader of the body ended the call with, and cancel ends what is under way.
	failure *Error
	cancel  context.CancelFunc
	// authenticated is when the credentials were reviewed last.
	authenticated time.Time
}

// fail ends a call from the reader of its body: the error is its answer, whatever the service returns.
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

// onFailure sets what ends what is under way.
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

// ServeHTTP answers a call: the caller, how long it may take, and what is written down of it are the same for gRPC and REST.
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
		p := recover()
		if p == http.ErrAbortHandler { //nolint:errorlint // the value itself is what net/http compares
			panic(p) // the stream is reset, without an answer
		}
		if p != nil {
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
	control := http.NewResponseController(w)
	// A caller that does not read its answer is not waited for.
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout))
	deadline, leave, err := s.begin(ctx, r, c)
	if err != nil {
		s.note(ctx, err)
		s.turnAway(ctx, w, r, c, AsError(err))
		return
	}
	defer leave()
	if c.grpc {
		if w.streaming = c.streaming; c.streaming {
			_ = control.SetWriteDeadline(time.Time{}) // each message has one
		} else {
			_ = control.SetWriteDeadline(deadline.Add(time.Second))
		}
		// The transport ends a call whose context ends without a status, but not one whose time is over.
		left := max(time.Until(deadline).Milliseconds(), 1)
		r.Header.Set("Grpc-Timeout", strconv.FormatInt(left, 10)+"m")
		r = r.WithContext(ctx)
		r.Body = s.bounded(r.Body, c)
		s.grpc.ServeHTTP(w, r)
		if e := c.failed(); e != nil {
			s.refuse(w, c, e)
		}
		return
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	// After the deadline: a connection that cannot be read any more counts as a caller who gave up.
	_ = control.SetReadDeadline(deadline.Add(time.Second))
	_ = control.SetWriteDeadline(deadline.Add(time.Second))
	most := int64(s.config.MaxRequestBytes)
	if s.open(c) {
		most = openBody
	}
	r.Body = http.MaxBytesReader(w, &counted{r.Body, c.bytes}, most)
	s.rest.ServeHTTP(w, r.WithContext(ctx))
}

// begin decides whether a call is served, and until when. The caller is found before anything is read of the body. Leave
// gives back what the call holds.
func (s *Server) begin(ctx context.Context, r *http.Request, c *call) (deadline time.Time, leave func(), err error) {
	timeout, err := s.timeout(r, c)
	if err != nil {
		return deadline, nil, err
	}
	deadline = time.Now().Add(timeout)
	address := addressOf(r)
	if c.method == healthMethod {
		return deadline, func() {}, nil // it is answered at once, whatever else is in flight
	}
	if s.open(c) {
		leave, err = s.admit(c, address)
		return deadline, leave, err
	}
	c.credentials = &credentials{header: r.Header, tls: r.TLS, address: address}
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

// turnAway refuses a call that does not get as far as a service. There are only so many refusals to peers that do not read
// them: the streams of the others are reset.
func (s *Server) turnAway(ctx context.Context, w *recorder, r *http.Request, c *call, e *Error) {
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
}

// open says what can be called by anybody: the probes of a kubelet have no token.
func (s *Server) open(c *call) bool {
	return c.service == healthService || s.openServices[c.service] || c.method == healthMethod
}

// timeout returns how long the call may take, as the caller or the configuration says.
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
	asked, err := parseTimeout(text)
	return min(asked, most), err
}

// timeouts are how long calls may take: those that do not say, the others, and streams.
type timeouts struct{ usual, most, stream time.Duration }

// Retune applies the timeouts and the limits of a configuration to calls that begin from now on.
func (s *Server) Retune(c *controller.Services) {
	s.limits.set(&c.RequestLimits)
	s.tokens.set(&c.RequestLimits)
	s.setTimeouts(c)
}

func (s *Server) setTimeouts(c *controller.Services) {
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

// refuse answers a call instead of a service, or in place of what the service has answered if that was a failure of the
// body's.
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
		// An answer of trailers only would have no header for the correlation.
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
	if s.open(c) || c.cheap && !s.limits.logged.Allow() {
		level = 4 // probes come every few seconds, and refusals as often as anyone likes
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
	// streaming bounds the time of each message. Sending says that one is being written.
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

// Flush is what gRPC demands of a writer.
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
		return codes.Canceled // the connection is gone
	case c.grpc || w.status >= http.StatusBadRequest:
		return codes.Unknown
	}
	return codes.OK
}
