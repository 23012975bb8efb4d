// SPDX-License-Identifier: Apache-2.0

// Package network is the connection of one program to the API server, with faults that a test begins and ends. It terminates TLS and
// uses HTTP/2, as the API server does, so that a client notices each fault in the way in which it would notice a real one.
package network

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is a connection. Create it with New.
type Proxy struct {
	server *httptest.Server
	// watching is how many watches are open.
	watching atomic.Int64

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	fault  Fault
	// frozen and stalled are closed when the fault ends; nil while there is none.
	frozen, stalled chan struct{}
}

// New returns a connection to a server. The transport has the identity of the program. The seed decides which requests a fault hits.
func New(target *url.URL, transport http.RoundTripper, seed uint64) *Proxy {
	p := &Proxy{random: rand.New(rand.NewPCG(seed, 1))}
	forward := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // at once, as a watch needs it
		ModifyResponse: p.modify,
		ErrorHandler:   p.fail,
		ErrorLog:       log.New(io.Discard, "", 0), // faults are no news
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		f := p.Fault()
		if wait(r.Context(), f.Latency) != nil {
			return
		}
		switch f.fateOf(r, p.hit) {
		case refused:
			refuse(out, f.Code)
		case reset:
			resetConnection(r.Context())
		case passes:
			forward.ServeHTTP(out, r)
		}
	}))
	p.server.EnableHTTP2 = true
	p.server.Listener = &listener{p.server.Listener, p}
	p.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	p.server.StartTLS()
	return p
}

// WriteKubeconfig writes a kubeconfig file for the program. It has no credentials: the proxy adds them.
func (p *Proxy) WriteKubeconfig(path string) error {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	return clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"proxy": {Server: p.server.URL, CertificateAuthorityData: ca}},
		Contexts:       map[string]*api.Context{"proxy": {Cluster: "proxy"}},
		CurrentContext: "proxy",
	}, path)
}

// Set begins a fault, and ends the one before.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	p.frozen = switched(p.frozen, f.Frozen)
	p.stalled = switched(p.stalled, f.Stalled)
}

// switched returns the channel of a state that is on or off.
func switched(now chan struct{}, on bool) chan struct{} {
	switch {
	case on && now == nil:
		return make(chan struct{})
	case !on && now != nil:
		close(now)
		return nil
	}
	return now
}

// Fault returns the present fault.
func (p *Proxy) Fault() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Watches is how many watches the program has open.
func (p *Proxy) Watches() int { return int(p.watching.Load()) }

// Close ends the fault and all connections.
func (p *Proxy) Close() {
	p.Set(Fault{})
	p.server.CloseClientConnections() // watches do not end by themselves
	p.server.Close()
}

func (p *Proxy) hit(percent int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return percent > 0 && p.random.IntN(100) < percent
}

// held returns the channels to wait for; nil ones where nothing is held.
func (p *Proxy) held() (frozen, stalled <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen, p.stalled
}

var errLost = errors.New("the answer is lost")

func (p *Proxy) modify(res *http.Response) error {
	if p.Fault().loses(res.Request, p.hit) {
		return errLost
	}
	if watches(res.Request) {
		p.watching.Add(1)
		res.Body = &watch{res.Body, res.Request, p}
	}
	return nil
}

// fail is called where there is no answer to hand on: it is lost, the client does not wait for it, or the API server is down. A lost
// answer ends its stream or, as often, the connection; a server that is down ends the connection.
func (p *Proxy) fail(_ http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil && (!errors.Is(err, errLost) || p.hit(50)) {
		resetConnection(r.Context())
	}
	panic(http.ErrAbortHandler)
}

type connKey struct{}

// resetConnection closes the connection of a request with a TCP reset.
func resetConnection(ctx context.Context) {
	c, _ := ctx.Value(connKey{}).(interface{ NetConn() net.Conn })
	if c == nil {
		return
	}
	if c, ok := c.NetConn().(*conn); ok {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a connection that is closed already is as good
		}
		_ = c.Close()
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch is the body of a watch, which may be stalled.
type watch struct {
	io.ReadCloser
	of *http.Request
	p  *Proxy
}

func (w *watch) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if _, stalled := w.p.held(); stalled != nil && w.p.Fault().concerns(w.of) {
		select {
		case <-stalled:
		case <-w.of.Context().Done():
			return 0, w.of.Context().Err()
		}
	}
	return n, err
}

// Close is called once, by the proxy that copies the body.
func (w *watch) Close() error {
	w.p.watching.Add(-1)
	return w.ReadCloser.Close()
}

// listener hands out connections that may be frozen.
type listener struct {
	net.Listener
	p *Proxy
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, p: l.p, closed: make(chan struct{})}, nil
}

type conn struct {
	net.Conn
	p      *Proxy
	once   sync.Once
	closed chan struct{}
}

// Read holds what arrived while the connection is frozen.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if hold := c.hold(); hold != nil {
		return 0, hold
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if hold := c.hold(); hold != nil {
		return 0, hold
	}
	return c.Conn.Write(b)
}

func (c *conn) hold() error {
	frozen, _ := c.p.held()
	if frozen == nil {
		return nil
	}
	select {
	case <-frozen:
		return nil
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
