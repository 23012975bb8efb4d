// SPDX-License-Identifier: Apache-2.0

package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// connections limits the number of open connections. A connection above the limit closes another one without an
// authenticated call in flight, and only if there is none it is closed itself: no client can block others by opening
// many connections. Half of the connections are for those that never had an authenticated call, so that a new caller
// has time for its first one. Only beyond that are they closed before idle ones.
type connections struct {
	most *Limit
	// gauge has the number of open connections; nil for none.
	gauge prometheus.Gauge

	mu     sync.Mutex // guards the rest, and the fields of all connections
	opened uint64
	open   int
	// unknown are the connections that never had an authenticated call, and idle those that had one. The oldest are
	// first.
	unknown, idle list.List
}

// connection is an open connection.
type connection struct {
	net.Conn
	all *connections
	id  string
	// inFlight is the number of authenticated calls in flight.
	inFlight int
	closed   bool
	// in and at are the position in unknown or idle, nil while there are calls.
	in *list.List
	at *list.Element
}

// listener limits the connections of another listener.
type listener struct {
	net.Listener
	all *connections
}

// Accept waits for a connection and admits it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.all.admit(c); admitted != nil {
			return admitted, nil
		}
		_ = c.Close() // nothing was written
	}
}

// admit adds a connection. It returns nil if all others have authenticated calls in flight.
func (a *connections) admit(c net.Conn) *connection {
	a.mu.Lock()
	var victim *connection
	if a.open >= a.most.Most() {
		refusals.WithLabelValues(a.most.Name).Inc()
		if victim = a.oldest(); victim == nil {
			a.mu.Unlock()
			return nil
		}
		victim.remove()
	}
	a.open++
	a.opened++
	added := &connection{Conn: c, all: a, id: strconv.FormatUint(a.opened, 36)}
	added.into(&a.unknown)
	a.report()
	a.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close() // pending data of the peer is dropped
	}
	return added
}

func (a *connections) report() {
	if a.gauge != nil {
		a.gauge.Set(float64(a.open))
	}
}

// oldest returns the connection to close for another one, nil if all have calls in flight.
func (a *connections) oldest() *connection {
	order := []*list.List{&a.idle, &a.unknown}
	if a.unknown.Len() >= (a.most.Most()+1)/2 {
		slices.Reverse(order)
	}
	for _, l := range order {
		if front := l.Front(); front != nil {
			return front.Value.(*connection)
		}
	}
	return nil
}

// into adds a connection at the end of a list. Nil is no list.
func (c *connection) into(l *list.List) {
	if c.in != nil {
		c.in.Remove(c.at)
	}
	if c.in, c.at = l, nil; l != nil {
		c.at = l.PushBack(c)
	}
}

// remove removes a connection.
func (c *connection) remove() {
	if c.closed {
		return
	}
	c.closed = true
	c.into(nil)
	c.all.open--
	c.all.report()
}

// Close closes the connection.
func (c *connection) Close() error {
	c.all.mu.Lock()
	c.remove()
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// hold keeps a connection open while an authenticated call is in flight, until the returned function is called. A nil
// connection is not limited.
func (c *connection) hold() (release func()) {
	if c == nil {
		return func() {}
	}
	c.count(1)
	return func() { c.count(-1) }
}

func (c *connection) count(n int) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.inFlight += n
	switch {
	case c.closed:
	case c.inFlight > 0:
		c.into(nil)
	default:
		c.into(&c.all.idle)
	}
}

type connectionKey struct{}

// withConnection is the ConnContext of the HTTP server.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}
