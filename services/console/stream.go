// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	pages "berth.dev/berth/internal/console"
)

const (
	// followInterval is how often the session and the rights of an open page are checked.
	followInterval = time.Second
	// An open page connects again after reconnectSoon if what it may show has changed, and after reconnectLate otherwise.
	reconnectSoon, reconnectLate = "retry: 250\n\n", "retry: 3000\n\n"
	// blindAtMost is how long an open page stays while the API server cannot review its user.
	blindAtMost = 30 * time.Second
)

var errOtherKey = errors.New("the rights have changed")

// stream serves an open page while its user may see what it shows. If the rights change, the page connects again and gets all that differs.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	v, err := s.visitor(r)
	if errors.Is(err, errNoSession) || errors.Is(err, errRevoked) {
		pages.EndStream(w)
		return
	}
	if err != nil {
		refuse(w, err)
		return
	}
	s.admit(w, r, v, s.streams, func(shown *pages.Console, k key) { s.serveStream(w, r, v, shown, k) })
}

// serveStream serves an open page, until its user may no longer see what it shows.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, v *visitor, shown *pages.Console, k key) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")                      // nginx would hold events back
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // each event has its own limit
	if _, err := w.Write([]byte(reconnectLate)); err != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go func() { cancel(s.follow(ctx, v, k, r)) }()
	shown.ServeHTTP(w, r.WithContext(signedIn(ctx, v, k)))
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errOtherKey):
		_, _ = w.Write([]byte(reconnectSoon)) // or the client is gone
	case errors.Is(cause, errNoSession), errors.Is(cause, errRevoked):
		pages.EndStream(w)
	}
}

// follow returns when an open page may no longer show what it shows, and why.
func (s *Server) follow(ctx context.Context, v *visitor, k key, r *http.Request) error {
	seen := s.clock.Now()
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now, err := s.keyNow(ctx, v, k.namespace, r)
		switch {
		case errors.Is(err, errNoSession), errors.Is(err, errRevoked):
			return err
		case err != nil && s.clock.Since(seen) > blindAtMost:
			return err
		case err != nil:
		case now != k:
			return errOtherKey
		default:
			seen = s.clock.Now()
		}
	}
}

// keyNow is what a visitor may see now.
func (s *Server) keyNow(ctx context.Context, v *visitor, namespace string, r *http.Request) (key, error) {
	at := *v // the request reads its own
	if err := s.valid(ctx, &at, r); err != nil {
		if status, _ := statusOf(err); status == http.StatusUnauthorized {
			return key{}, errRevoked
		}
		return key{}, err
	}
	return s.keyOf(ctx, &at, namespace)
}
