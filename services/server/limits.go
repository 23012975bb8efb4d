// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"berth.dev/berth/apis/config/controller"
)

const (
	// openBody is the maximum body of a call without authentication: the request of health has the name of a service.
	openBody = 4 << 10
	// openTimeout is the maximum timeout of such a call, openStreamTimeout that of such a stream.
	openTimeout, openStreamTimeout = 5 * time.Second, 10 * time.Minute
	// answerTimeout is the timeout for writing a refusal, and sendTimeout that for a message of a stream, to a caller
	// that does not read.
	answerTimeout, sendTimeout = 5 * time.Second, 30 * time.Second
	// callerBodies is the number of bodies of maximum size, at least callerBytes, that are kept for a caller at a time.
	// allBodies is its multiple for all callers.
	callerBodies, callerBytes, allBodies = 2, 8 << 20, 4
	// answersPerConnection is the number of refusals that are written to a connection at a time, and answers that to
	// all. Further streams are reset without an answer: the peer does not read.
	answersPerConnection, answers = 32, 1024
	// logsPerSecond is the number of cheap refusals that are logged.
	logsPerSecond = 10
)

// limits are the limits of callers. The fields of the configuration can change while the server runs.
type limits struct {
	connections *Limit
	// calls and streams in flight by user, and open calls by address.
	calls, streams, open *Pool
	// reviewing are the calls whose caller is being authenticated, by token or address.
	reviewing *Pool
	// bytes are those of bodies in memory, by user or address.
	bytes *Pool
	// answers are the refusals that are being written, by connection.
	answers *Pool
	// logged limits the log messages about cheap refusals.
	logged *rate.Limiter
}

func newLimits(c *controller.Services) *limits {
	of := &c.RequestLimits
	field := func(n *int32) *Limit { return NewLimit(pathOf(c, n), 0) }
	perCaller := max(callerBytes, callerBodies*int(c.MaxRequestBytes))
	l := &limits{
		connections: field(&of.Connections),
		calls:       NewPool("calls in flight", field(&of.Calls), field(&of.CallsPerCaller)),
		streams:     NewPool("streams in flight", field(&of.Streams), field(&of.StreamsPerCaller)),
		open:        NewPool("calls in flight without authentication", field(&of.OpenCalls), field(&of.OpenCallsPerAddress)),
		bytes:       NewPool("bytes of requests in flight", NewLimit("bytes", allBodies*perCaller), NewLimit("bytesPerCaller", perCaller)),
		answers:     NewPool("refusals in flight", NewLimit("refusals", answers), NewLimit("refusalsPerConnection", answersPerConnection)),
		logged:      rate.NewLimiter(logsPerSecond, 10*logsPerSecond),
	}
	l.reviewing = NewPool("calls in authentication", l.calls.total, l.calls.perKey)
	l.set(&c.RequestLimits)
	return l
}

// pathOf returns the path of a field of a configuration, as users write it. Messages name no field that does not exist.
func pathOf(c *controller.Services, field *int32) string {
	path, _ := pathIn(reflect.ValueOf(c).Elem(), reflect.ValueOf(field))
	return "services" + path
}

func pathIn(in, field reflect.Value) (path string, found bool) {
	for i := range in.NumField() {
		name, _, _ := strings.Cut(in.Type().Field(i).Tag.Get("json"), ",")
		switch f := in.Field(i); {
		case f.Addr().Type() == field.Type() && f.Addr().Pointer() == field.Pointer():
			return "." + name, true
		case f.Kind() == reflect.Struct:
			if below, found := pathIn(f, field); found {
				return "." + name + below, true
			}
		}
	}
	return "", false
}

func (l *limits) set(c *controller.RequestLimits) {
	l.connections.Set(int(c.Connections))
	l.calls.total.Set(int(c.Calls))
	l.calls.perKey.Set(int(c.CallsPerCaller))
	l.streams.total.Set(int(c.Streams))
	l.streams.perKey.Set(int(c.StreamsPerCaller))
	l.open.total.Set(int(c.OpenCalls))
	l.open.perKey.Set(int(c.OpenCallsPerAddress))
}

// addressOf is the source address for which a request counts. For IPv6 it is the /64 network, which one host can have.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // every IPv6 address has one
	return network.String()
}

// admit takes what a call uses while it is in flight. The returned function releases it.
func (s *Server) admit(c *call, address string) (leave func(), err error) {
	pool, key := s.limits.calls, address
	switch {
	case s.open(c):
		pool = s.limits.open
	case c.streaming:
		pool = s.limits.streams
	}
	if c.caller != nil {
		key = c.caller.GetName()
	}
	if err := pool.Take(key, 1); err != nil {
		return nil, err
	}
	c.bytes = &account{pool: s.limits.bytes, key: key}
	return func() {
		pool.Free(key, 1)
		c.bytes.close()
	}, nil
}

// tooLarge refuses a body, which is called so.
func tooLarge(name, description string) *Error {
	e := InvalidField(name, description)
	e.HTTPStatus = http.StatusRequestEntityTooLarge
	return e
}
