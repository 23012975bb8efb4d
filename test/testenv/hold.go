// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"berth.dev/berth/hack/cluster"
)

// Hold stops a program between two of its requests.
type Hold struct {
	w        *World
	match    func(*http.Request) bool
	taken    atomic.Bool
	reached  chan struct{}
	released chan struct{}
}

// HoldRequest returns a kubeconfig of Berth's scheduler that goes through a proxy, which holds the first request that matches: the
// API server gets it once it is released, and never if the scheduler is killed before.
func (w *World) HoldRequest(match func(*http.Request) bool) (path string, h *Hold) {
	w.T.Helper()
	h = newHold(w, match)
	return w.proxied(nil, h.refuse, cluster.BerthSchedulerUser), h
}

// HoldAnswer is HoldRequest for the answer of the API server, which has done then what was requested.
func (w *World) HoldAnswer(match func(*http.Request) bool) (path string, h *Hold) {
	w.T.Helper()
	h = newHold(w, match)
	return w.proxied(h.modify, nil, cluster.BerthSchedulerUser), h
}

func newHold(w *World, match func(*http.Request) bool) *Hold {
	return &Hold{w: w, match: match, reached: make(chan struct{}), released: make(chan struct{})}
}

// Wait waits until the request, or its answer, is held.
func (h *Hold) Wait() {
	h.w.T.Helper()
	h.w.Eventually("the proxy holds a request", func() (bool, string) {
		select {
		case <-h.reached:
			return true, ""
		default:
			return false, "it passed none that matches"
		}
	})
}

// Release hands the request, or its answer, on.
func (h *Hold) Release() { close(h.released) }

// errGone is why a request that was held is not handed on.
var errGone = errors.New("the client is gone")

func (h *Hold) refuse(r *http.Request) bool {
	if !h.match(r) || !h.taken.CompareAndSwap(false, true) {
		return false
	}
	// A server notices that a client is gone only after it has read what the client sent.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return true
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return h.hold(r) != nil
}

func (h *Hold) modify(res *http.Response) error {
	if !h.match(res.Request) || !h.taken.CompareAndSwap(false, true) {
		return nil
	}
	return h.hold(res.Request)
}

// hold returns when the request is released, or with an error when its client is gone.
func (h *Hold) hold(r *http.Request) error {
	close(h.reached)
	select {
	case <-h.released:
		return nil
	case <-r.Context().Done():
		return errGone
	}
}
