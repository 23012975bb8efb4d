// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// drainTimeout is the time for requests in flight to finish at the end.
const drainTimeout = 2 * time.Second

// Serve serves until the context ends.
func Serve(ctx context.Context, l net.Listener, s *http.Server) error {
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if s.Shutdown(drain) != nil {
			_ = s.Close() // ends what is still in flight, such as a stream
		}
	})
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}
