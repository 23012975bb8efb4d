// SPDX-License-Identifier: Apache-2.0

// Package rebalance brings replicas that run on the wrong capacity type back to
// the right one, by the Eviction API and a few at a time. What is decided is
// decided in internal/rebalance; this package finds out the facts, proves room
// and evicts.
package rebalance

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/board"
	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/rebalance"
	"berth.dev/berth/internal/replay"
)

// Options configure the controller. Every field is required.
type Options struct {
	Fleet    *fleet.Fleet
	Board    *board.Board
	Reader   client.Reader // CapacityMixes and PodDisruptionBudgets, from a cache
	Client   kubernetes.Interface
	Config   *rest.Config
	Profile  *replay.Profile
	Recorder record.EventRecorder
	Clock    clock.WithTicker
	// Synced reports whether the fleet has been filled.
	Synced func() (waitingFor string, ok bool)
	// Decided is called after the groups of a namespace were looked at.
	Decided func(namespace string)

	Namespaces []string // only these; empty: all
	Resync     time.Duration
	DryRun     bool
	// Defaults are for mixes that do not say.
	Defaults             rebalance.Settings
	ClusterMaxConcurrent int
	Grace                time.Duration
	Backoff, MaxBackoff  time.Duration
	MoveTimeout          time.Duration
	Storm                rebalance.StormSettings
	Placeholders         Placeholders
}

// Placeholders are how room is asked of an autoscaler.
type Placeholders struct {
	Image string
	// SizeOf returns the ResourceLimit of a pod, nil if it has none.
	SizeOf func(*corev1.Pod) *v1alpha1.ResourceLimit
}

// Controller is a manager.Runnable that works on the leader only. It looks at
// one namespace after the other in one goroutine, so that budgets need no lock.
type Controller struct {
	Options
	wake chan struct{}
	// released are the placeholders that were deleted of late, and when. Only pass, of which one runs at a time, uses it.
	released map[types.UID]time.Time

	mu       sync.Mutex // guards what follows
	dirty    map[string]bool
	graceEnd time.Time
	storm    *rebalance.Storm
}

var (
	_ manager.Runnable               = &Controller{}
	_ manager.LeaderElectionRunnable = &Controller{}
)

// New returns a controller that is not running yet.
func New(o Options) *Controller {
	return &Controller{Options: o, wake: make(chan struct{}, 1), dirty: map[string]bool{}, released: map[types.UID]time.Time{}, storm: rebalance.NewStorm(o.Storm)}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Controller) NeedLeaderElection() bool { return true }

// debounce lets changes that come together be looked at together.
const debounce = 200 * time.Millisecond

// allNamespaces in dirty stands for every namespace.
const allNamespaces = ""

// Changed asks for a namespace to be looked at; "" means all. It never blocks.
func (c *Controller) Changed(namespace string) {
	c.mu.Lock()
	c.dirty[namespace] = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// NodeLeft counts a spot node that began to depart or vanished.
func (c *Controller) NodeLeft(name string, t capacity.Type) {
	if t != capacity.Spot {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storm.NodeLeft(name, c.Clock.Now())
}

// Outage notes that the API server could not be read: until some time after it
// can be, what the fleet shows may be old.
func (c *Controller) Outage(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := at.Add(c.Grace); end.After(c.graceEnd) {
		c.graceEnd = end
	}
}

// Start implements manager.Runnable: it is called when this replica leads.
func (c *Controller) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("rebalance")
	ctx = log.IntoContext(ctx, logger)
	c.Outage(c.Clock.Now())
	if !c.waitSynced(ctx) {
		return nil
	}
	logger.Info("Looking after the mix of workloads", "resync", c.Resync, "dryRun", c.DryRun)
	resync := c.Clock.NewTicker(c.Resync)
	defer resync.Stop()
	c.Changed(allNamespaces)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-resync.C():
			c.Changed(allNamespaces)
		case <-c.wake:
			if !c.pause(ctx, debounce) {
				return nil
			}
			c.wakeAt(ctx, c.pass(ctx))
		}
	}
}

func (c *Controller) waitSynced(ctx context.Context) bool {
	for {
		if _, ok := c.Synced(); ok {
			return true
		}
		if !c.pause(ctx, debounce) {
			return false
		}
	}
}

func (c *Controller) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.Clock.After(d):
		return true
	}
}

// wakeAt looks at the namespaces again when time alone has changed something.
func (c *Controller) wakeAt(ctx context.Context, due map[string]time.Time) {
	for namespace, at := range due {
		wait := at.Sub(c.Clock.Now())
		if wait >= c.Resync {
			continue // the resync comes first
		}
		timer := c.Clock.NewTimer(max(wait, debounce))
		go func() {
			defer timer.Stop()
			select {
			case <-ctx.Done():
			case <-timer.C():
				c.Changed(namespace)
			}
		}()
	}
}

// pass looks at every namespace that changed, and returns when which of them
// has to be looked at again.
func (c *Controller) pass(ctx context.Context) map[string]time.Time {
	p := &pass{Controller: c, now: c.Clock.Now(), due: map[string]time.Time{}}
	defer p.close()
	c.forgetReleased(p.now)
	p.cluster = c.clusterNow(p.now)
	namespaces, all := c.takeDirty(ctx)
	for _, namespace := range namespaces {
		if ctx.Err() != nil {
			return nil
		}
		p.namespace(ctx, namespace)
		if c.Board.Complete() {
			c.Decided(namespace)
		}
	}
	scope := "some"
	if all {
		scope = "all"
	}
	lookSeconds.WithLabelValues(scope).Observe(c.Clock.Since(p.now).Seconds())
	if all && !c.Board.Complete() {
		c.Board.SetComplete()
		for _, namespace := range namespaces {
			c.Decided(namespace)
		}
	}
	return p.due
}

// clusterNow is what holds for all mixes.
func (c *Controller) clusterNow(now time.Time) rebalance.Cluster {
	spot := c.Fleet.Count(capacity.Spot)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.storm.Count()
	active, until := c.storm.Active(now, spot)
	if began := c.storm.Count() - before; began > 0 {
		storms.Add(float64(began))
	}
	c.Board.SetStorm(active)
	if !active {
		until = time.Time{}
	}
	return rebalance.Cluster{
		Now: now, GraceUntil: c.graceEnd, StormUntil: until, Limit: c.ClusterMaxConcurrent, DryRun: c.DryRun,
		SchedulerNames: c.Profile.SchedulerNames, RolloutDeadline: c.MoveTimeout,
	}
}

// takeDirty returns the namespaces to look at and forgets them. All is set if
// those are all that there are.
func (c *Controller) takeDirty(ctx context.Context) (list []string, all bool) {
	c.mu.Lock()
	dirty := c.dirty
	c.dirty = map[string]bool{}
	c.mu.Unlock()
	if all = dirty[allNamespaces]; all {
		c.addAll(ctx, dirty)
	}
	for n := range dirty {
		if n != allNamespaces && c.cares(n) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, all
}

// addAll adds every namespace that has pods, has had them, or has a mix. One
// that has nothing but a placeholder is among them.
func (c *Controller) addAll(ctx context.Context, to map[string]bool) {
	for _, n := range c.Fleet.Namespaces() {
		to[n] = true
	}
	for _, h := range c.Fleet.Placeholders(allNamespaces) {
		to[h.Namespace] = true
	}
	for _, e := range c.Board.All() {
		to[e.Group.Key.Namespace] = true
	}
	var mixes v1alpha1.CapacityMixList
	if err := c.Reader.List(ctx, &mixes); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list CapacityMixes")
		return
	}
	for i := range mixes.Items {
		to[mixes.Items[i].Namespace] = true
	}
}

func (c *Controller) cares(namespace string) bool {
	if len(c.Namespaces) == 0 {
		return true
	}
	return slices.Contains(c.Namespaces, namespace)
}
