// SPDX-License-Identifier: Apache-2.0

// Package interruptions counts the spot nodes that providers reclaim, by interruption domain, in a ConfigMap that
// berth-scheduler reads. internal/mix/interruptions makes the decisions.
package interruptions

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/interruptions"
)

const (
	// retryAfter is the time after a first attempt to read or write the ConfigMap. It doubles with each further one, up to
	// maxRetryAfter.
	retryAfter, maxRetryAfter = 5 * time.Second, time.Minute
	// maxWaiting bounds the nodes that wait to be counted, and maxAge how long one does while this process does not lead: then another
	// one counts it, and this one only if it takes the lead soon.
	maxWaiting, maxAge = 1000, 5 * time.Minute
)

// Options configure the controller. Every field but DryRun is required.
type Options struct {
	State  *clusterstate.State
	Client kubernetes.Interface
	Clock  clock.WithTicker
	// Synced reports whether the cluster state has been filled.
	Synced func() (waitingFor string, ok bool)
	// ConfigMap has the interruptions for the schedulers, and for a new leader.
	ConfigMap types.NamespacedName
	// Keys are the node labels whose values identify an interruption domain.
	Keys     []string
	Settings interruptions.Settings
	// DryRun counts nothing: what is counted steers the schedulers. SetDryRun changes it.
	DryRun bool
}

// Controller counts interruptions. It is a manager.Runnable on the leader.
type Controller struct {
	Options
	dryRun atomic.Bool
	wake   chan struct{}
	store  store

	mu      sync.Mutex // guards what follows
	waiting []departure
	leads   bool
	// table is nil until it was read.
	table *interruptions.Table
}

// departure is a node that waits to be counted.
type departure struct {
	uid                  types.UID
	name, domain, notice string
	at                   time.Time
}

var _ manager.Runnable = &Controller{}

// New returns a controller that has counted nothing.
func New(o Options) *Controller {
	c := &Controller{Options: o, wake: make(chan struct{}, 1)}
	c.store = store{Options: &c.Options}
	c.dryRun.Store(o.DryRun)
	return c
}

// NodeLeft notes a spot node whose provider has announced that it reclaims it. It never waits.
func (c *Controller) NodeLeft(d clusterstate.Departure) {
	if d.Type != capacity.Spot || d.Notice == "" || !interruptions.Identified(d.Domain) {
		return
	}
	now := c.Clock.Now()
	c.mu.Lock()
	if !c.leads || c.dryRun.Load() { // a leader keeps what it cannot write
		c.prune(now)
	}
	if len(c.waiting) < maxWaiting {
		c.waiting = append(c.waiting, departure{d.UID, d.Name, d.Domain, d.Notice, now})
	}
	c.mu.Unlock()
	c.awake()
}

// SetDryRun sets whether nothing is counted from now on.
func (c *Controller) SetDryRun(is bool) {
	if c.dryRun.Swap(is) == is {
		return
	}
	c.mu.Lock()
	c.prune(c.Clock.Now())
	c.mu.Unlock()
	c.awake()
}

func (c *Controller) awake() {
	select {
	case c.wake <- struct{}{}:
	default: // it is awake
	}
}

// prune drops what another process has counted by now, and what is old after a dry run. Under mu.
func (c *Controller) prune(now time.Time) {
	c.waiting = slices.DeleteFunc(c.waiting, func(w departure) bool { return now.Sub(w.at) > maxAge })
}

func (c *Controller) lead(leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leads = leads
	c.prune(c.Clock.Now())
}

// Start implements manager.Runnable.
func (c *Controller) Start(ctx context.Context) error {
	c.lead(true)
	defer c.lead(false)
	if !workloads.Await(ctx, c.Clock, c.Synced) {
		return nil
	}
	c.adopt()
	var failed failures
	for {
		again := failed.after(ctx, c.step(ctx))
		if !c.wait(ctx, again) {
			return nil
		}
	}
}

// wait returns false once the context ends. Otherwise it returns after some time or, with 0, when something is to be counted.
func (c *Controller) wait(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-c.Clock.After(d):
			return true
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-c.wake:
		return true
	}
}

// adopt notes the nodes that are there and depart: nobody may have counted them.
func (c *Controller) adopt() {
	for _, n := range c.State.Nodes() {
		if n.Departing != "" {
			c.NodeLeft(clusterstate.Departure{
				Name: n.Name, UID: n.UID, Type: n.Type, Domain: n.Domain, Cause: n.Cause, Notice: n.Notice,
			})
		}
	}
}

// step counts what waits, and returns an error if that has to be tried again. Quarantines that began by other settings end by these.
// A dry run leaves what waits to its end.
func (c *Controller) step(ctx context.Context) error {
	before, err := c.store.read(ctx, c.Clock.Now())
	if err != nil {
		return err
	}
	c.keep(&before)
	if c.dryRun.Load() {
		return nil
	}
	c.mu.Lock()
	waiting := slices.Clone(c.waiting)
	c.mu.Unlock()
	limited, shorter := before.Limit(c.Clock.Now(), c.Settings)
	next, counted := c.count(limited, waiting)
	if shorter || len(counted) > 0 {
		if err := c.store.write(ctx, &next); err != nil {
			return err
		}
		c.keep(&next)
		c.report(ctx, &before, &next, counted)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(w departure) bool { return slices.Contains(waiting, w) })
	return nil
}

// count returns the table with all departures that were not counted before, and these.
func (c *Controller) count(table interruptions.Table, waiting []departure) (next interruptions.Table, counted []departure) {
	next = table
	if len(waiting) == 0 {
		return next, nil
	}
	staying := map[string]int{}
	for _, n := range c.State.Nodes() {
		if n.Type == capacity.Spot && n.Departing == "" {
			staying[n.Domain]++
		}
	}
	for _, w := range waiting {
		in := interruptions.Interruption{Node: string(w.uid), Domain: w.domain, Staying: staying[w.domain]}
		var is bool
		if next, is = next.Observe(in, w.at, c.Settings); is {
			counted = append(counted, w)
		}
	}
	return next, counted
}

// report counts in metrics what was counted, and logs the quarantines that began or became longer.
func (c *Controller) report(ctx context.Context, before, after *interruptions.Table, counted []departure) {
	for _, w := range counted {
		interrupted.WithLabelValues(w.notice).Inc()
		log.FromContext(ctx).V(2).Info("Counted the interruption of a spot node", "node", w.name, "domain", w.domain, "signal", w.notice)
	}
	now := c.Clock.Now()
	for i := range after.Domains {
		d := &after.Domains[i]
		if was := before.Find(d.Name); d.Quarantined(now) && (was == nil || was.Until.Before(d.Until)) {
			log.FromContext(ctx).Info("An interruption domain is in quarantine", "domain", d.Name, "until", d.Until)
		}
	}
}

func (c *Controller) keep(t *interruptions.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table = t
}
