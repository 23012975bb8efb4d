// SPDX-License-Identifier: Apache-2.0

package uncached

import (
	"context"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// WithDeadlines returns a copy of a configuration for requests that have the deadlines of calls. It limits the requests of each client
// as the configuration does.
func WithDeadlines(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS > 0 && cfg.Burst > 0 && cfg.RateLimiter == nil {
		cfg.RateLimiter = limiter{flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)}
	}
	return cfg
}

// limiter ends a wait with the error of the context only. That of the library, for a request that would have to wait beyond the
// deadline, is a text, which callers cannot distinguish from a failure.
type limiter struct{ flowcontrol.RateLimiter }

// Wait implements flowcontrol.RateLimiter.
func (l limiter) Wait(ctx context.Context) error {
	if err := l.RateLimiter.Wait(ctx); err == nil {
		return nil
	}
	<-ctx.Done() // without a deadline there is no error
	return ctx.Err()
}
