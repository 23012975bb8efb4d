// SPDX-License-Identifier: Apache-2.0

package leaderguard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/net"
)

// Wrap has a client refuse writes when the fence is shut, and cancel those in flight when it shuts. Leases are left to leader
// election.
func (f *Fence) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{fence: f, next: next}
}

// WrapAll is Wrap for a client that leader election does not use: its Leases are locks like others.
func (f *Fence) WrapAll(next http.RoundTripper) http.RoundTripper {
	return &transport{fence: f, next: next, leases: true}
}

type transport struct {
	fence  *Fence
	next   http.RoundTripper
	leases bool
}

var _ net.RoundTripperWrapper = &transport{}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	election := !t.leases && strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
	if election || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return t.next.RoundTrip(r)
	}
	if t.fence.Shut() {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper has to
		}
		return nil, ErrShut
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	go func() {
		select {
		case <-t.fence.shut:
			cancel(ErrShut)
		case <-ctx.Done():
		}
	}()
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrShut) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{resp.Body, func() { cancel(nil) }}
	return resp, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// body ends the context of its request when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
