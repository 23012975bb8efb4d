// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	// probeInterval is the interval of requests to the API server's readiness, and probeTimeout their timeout.
	probeInterval = 5 * time.Second
	probeTimeout  = 3 * time.Second
	// misses is the number of consecutive failures after which it counts as unreachable: one connection of many may
	// break.
	misses = 2
)

// reach is whether the API server is reachable. Without it no call can be answered.
type reach struct {
	api      rest.Interface
	interval time.Duration
	missed   int
}

func newReach(api *rest.Config) (*reach, error) {
	c := rest.CopyConfig(api)
	c.QPS = -1 // independent of calls
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &reach{api: client, interval: probeInterval}, nil
}

// reachable requests the readiness of the API server. Any answer except "not ready" counts, including that the request is
// forbidden.
func (r *reach) reachable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var code int
	err := r.api.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).StatusCode(&code).Error()
	return err == nil || code > 0 && code < http.StatusInternalServerError
}

// note counts consecutive failures. It returns whether calls can be answered, and whether that changed.
func (r *reach) note(there bool) (serving, changed bool) {
	before := r.missed < misses
	if there {
		r.missed = 0
	} else {
		r.missed++
	}
	serving = r.missed < misses
	return serving, serving != before
}

// watch sets the health according to the API server's reachability until the context ends.
func (s *Server) watch(ctx context.Context) error {
	tick := time.NewTicker(s.reach.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		serving, changed := s.reach.note(s.reach.reachable(ctx))
		if !changed || ctx.Err() != nil {
			continue
		}
		s.log.Info("Reachability of the API server changed", "reachable", serving)
		s.served(serving)
	}
}

// served sets the health of all services. After shutdown it has no effect.
func (s *Server) served(serving bool) {
	status := healthpb.HealthCheckResponse_NOT_SERVING
	if serving {
		status = healthpb.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
	for name := range s.methods {
		s.health.SetServingStatus(name, status)
	}
}
