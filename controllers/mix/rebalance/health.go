// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/internal/mix/rebalance"
)

// Query queries a monitoring system once. It ends in time. An error means that there is no answer, so it is unknown whether all is well.
type Query func(ctx context.Context) (good bool, detail string, err error)

// HealthGate queries from time to time whether replicas may be moved. It is a manager.Runnable on the leader: decisions read what it
// found last, and never wait for it.
type HealthGate struct {
	query    Query
	interval time.Duration
	clock    clock.WithTicker
	// changed is called after the state changed.
	changed func()

	mu     sync.Mutex // guards what follows
	health rebalance.Health
}

var _ manager.Runnable = &HealthGate{}

// NewHealthGate returns a gate. Before the first answer its state is unknown.
func NewHealthGate(query Query, interval time.Duration, c clock.WithTicker, changed func()) *HealthGate {
	return &HealthGate{
		query: query, interval: interval, clock: c, changed: changed,
		health: rebalance.Health{State: rebalance.HealthUnknown, Detail: "it was not queried yet"},
	}
}

// Start implements manager.Runnable.
func (g *HealthGate) Start(ctx context.Context) error {
	ticker := g.clock.NewTicker(g.interval)
	defer ticker.Stop()
	for {
		g.poll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// poll queries once.
func (g *HealthGate) poll(ctx context.Context) {
	good, detail, err := g.query(ctx)
	state := rebalance.Unhealthy
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		state, detail = rebalance.HealthUnknown, err.Error()
	case good:
		state = rebalance.Healthy
	}
	g.mu.Lock()
	was := g.health
	g.health = was.Next(state, detail, g.clock.Now())
	if was.At.IsZero() && was.State == state { // the first answer: its cause is another one
		g.health = rebalance.Health{State: state, Detail: detail, At: g.clock.Now()}
	}
	is := g.health
	g.mu.Unlock()
	if was != is {
		log.FromContext(ctx).Info("The health gate changed", "state", is.State, "detail", is.Detail)
		g.changed()
	}
}

// Now is the last answer, nil without a gate.
func (g *HealthGate) Now() *rebalance.Health {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return new(g.health)
}
