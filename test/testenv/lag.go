// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"berth.dev/berth/hack/cluster"
)

// LaggingKubeconfig returns a kubeconfig of Berth's scheduler that goes through
// a proxy: what it watches of a resource, such as replicasets, arrives that
// much later. Nothing else is held up.
func (w *World) LaggingKubeconfig(resource string, lag time.Duration) string {
	w.T.Helper()
	return w.proxied(late(resource, func() <-chan time.Time { return time.After(lag) }), nil, cluster.BerthSchedulerUser)
}

// StallingKubeconfig is LaggingKubeconfig for a resource of which nothing
// arrives while stalled is set, and everything afterwards.
func (w *World) StallingKubeconfig(resource string) (path string, stalled *atomic.Bool) {
	w.T.Helper()
	return w.StallingKubeconfigOf(cluster.BerthSchedulerUser, resource)
}

// StallingKubeconfigOf is StallingKubeconfig for a given user.
func (w *World) StallingKubeconfigOf(user, resource string) (path string, stalled *atomic.Bool) {
	w.T.Helper()
	stalled = &atomic.Bool{}
	return w.proxied(late(resource, func() <-chan time.Time {
		over := make(chan time.Time)
		go func() {
			defer close(over)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for stalled.Load() && w.Ctx.Err() == nil {
				<-tick.C
			}
		}()
		return over
	}), nil, user), stalled
}

// LeaselessKubeconfig returns a kubeconfig of a user that goes through a proxy,
// which refuses all requests for leases while cut is set.
func (w *World) LeaselessKubeconfig(user string, groups ...string) (path string, cut *atomic.Bool) {
	w.T.Helper()
	cut = &atomic.Bool{}
	refuse := func(r *http.Request) bool {
		return cut.Load() && strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
	}
	return w.proxied(nil, refuse, user, groups...), cut
}

// SlowKubeconfig returns a kubeconfig of a user that goes through a proxy, which hands on so many bytes of each answer in a second. The
// answers about leases are not held up: a program that loses its lease ends.
func (w *World) SlowKubeconfig(user string, bytesPerSecond int) string {
	w.T.Helper()
	return w.proxied(func(r *http.Response) error {
		if !strings.Contains(r.Request.URL.Path, "/leases") {
			r.Body = &trickling{ReadCloser: r.Body, ctx: r.Request.Context(), rate: bytesPerSecond}
		}
		return nil
	}, nil, user)
}

// DelayedKubeconfig returns a kubeconfig of a user that goes through a proxy, which holds the answer to each request up for a time that
// delay returns.
func (w *World) DelayedKubeconfig(user string, delay func(*http.Request) time.Duration) string {
	w.T.Helper()
	return w.proxied(func(r *http.Response) error {
		select {
		case <-time.After(delay(r.Request)):
		case <-r.Request.Context().Done():
		}
		return nil
	}, nil, user)
}

// trickling is a response that is handed on a tenth of a second's bytes at a time.
type trickling struct {
	io.ReadCloser
	ctx  context.Context
	rate int
}

func (t *trickling) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p[:min(len(p), max(t.rate/10, 1))])
	if n == 0 {
		return n, err
	}
	select {
	case <-time.After(time.Duration(n) * time.Second / time.Duration(t.rate)):
		return n, err
	case <-t.ctx.Done():
		return 0, t.ctx.Err()
	}
}

// late has a proxy hand on what is watched of a resource once the channel has
// something, or is closed.
func late(resource string, hold func() <-chan time.Time) func(*http.Response) error {
	return func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/"+resource) && r.Request.URL.Query().Has("watch") {
			r.Body = &lagging{ReadCloser: r.Body, ctx: r.Request.Context(), hold: hold}
		}
		return nil
	}
}

// proxied returns a kubeconfig of a user that goes through a proxy.
func (w *World) proxied(modify func(*http.Response) error, refuse func(*http.Request) bool, user string, groups ...string) string {
	w.T.Helper()
	config, err := w.Cluster.ConfigFor(user, groups...)
	require.NoError(w.T, err)
	transport, err := rest.TransportFor(config)
	require.NoError(w.T, err)
	target, err := url.Parse(config.Host)
	require.NoError(w.T, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // at once, as a watch needs it
		ModifyResponse: modify,
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if refuse != nil && refuse(r) {
			http.Error(out, "the test cut it", http.StatusServiceUnavailable)
			return
		}
		if modify != nil && r.URL.Query().Has("sendInitialEvents") {
			// Only what is watched comes late: the client lists instead.
			http.Error(out, "lists are not streamed", http.StatusUnprocessableEntity)
			return
		}
		proxy.ServeHTTP(out, r)
	}))
	w.T.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	path := filepath.Join(w.T.TempDir(), "kubeconfig")
	require.NoError(w.T, clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"proxy": {Server: server.URL}},
		Contexts:       map[string]*api.Context{"proxy": {Cluster: "proxy"}},
		CurrentContext: "proxy",
	}, path))
	return path
}

// lagging is a response that is handed on late.
type lagging struct {
	io.ReadCloser
	ctx  context.Context
	hold func() <-chan time.Time
}

func (l *lagging) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	select {
	case <-l.hold():
		return n, err
	case <-l.ctx.Done():
		return 0, l.ctx.Err()
	}
}
