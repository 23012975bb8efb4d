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
	// lookInterval is how often the API server is requested whether it is there, and lookTimeout what it has to answer.
	lookInterval = 5 * time.Second
	lookTimeout  = 3 * time.Second
	// misses is how often in a row it must not be there: one connection of many may break.
	misses = 2
)

// reach is whether the API server can be reached, without which no call can be answered.
type reach struct {
	api      rest.Interface
	interval time.Duration
	missed   int
}

func newReach(api *rest.Config) (*reach, error) {
	c := rest.CopyConfig(api)
	c.QPS = -1 // calls have no part in when it is requested
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &reach{api: client, interval: lookInterval}, nil
}

// there queries the API server whether it is ready. Any answer but that it is not will do: that it may not be requested is one too.
func (r *reach) there(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var code int
	err := r.api.Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).StatusCode(&code).Error()
	return err == nil || code > 0 && code < http.StatusInternalServerError
}

// note counts how often in a row the API server was not there. It says whether calls can be answered, and whether that is
// news.
func (r *reach) note(there bool) (serving, news bool) {
	before := r.missed < misses
	if there {
		r.missed = 0
	} else {
		r.missed++
	}
	serving = r.missed < misses
	return serving, serving != before
}

// watch has the health say whether the API server can be reached, until the context ends.
func (s *Server) watch(ctx context.Context) error {
	tick := time.NewTicker(s.reach.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		serving, news := s.reach.note(s.reach.there(ctx))
		if !news || ctx.Err() != nil {
			continue
		}
		s.log.Info("Whether the API server can be reached has changed", "reached", serving)
		s.served(serving)
	}
}

// served has the health say of all services whether they can answer. After its shutdown it says nothing new.
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
