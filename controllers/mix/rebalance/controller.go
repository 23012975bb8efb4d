// SPDX-License-Identifier: Apache-2.0

// Package rebalance brings replicas that run on the wrong capacity type back to
// the right one, by the Eviction API and a few at a time. What is decided is
// decided in internal/mix/rebalance; this package finds out the facts, proves room
// and evicts.
package rebalance

import (
	"context"
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
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// Options configure the controller. Every field is required, but for the Journal.
type Options struct {
	State     *clusterstate.State
	Workloads *workloads.Store
	Reader    client.Reader // CapacityMixes and PodDisruptionBudgets, from a cache
	Client    kubernetes.Interface
	Config    *rest.Config
	Profile   *simulation.Profile
	Recorder  record.EventRecorder
	Clock     clock.WithTicker
	// Synced reports whether the cluster state has been filled.
	Synced func() (waitingFor string, ok bool)
	// Decided is called after groups of a namespace were looked at.
	Decided func(workloads.Decision)

	// Journal is the ConfigMap in which a new leader finds what it has to know of moves; without a name there is none.
	Journal types.NamespacedName

	Namespaces   []string // only these; empty: all
	Resync       time.Duration
	Tuning       // what it starts with; read in a look only
	Grace        time.Duration
	Storm        rebalance.StormSettings
	Placeholders Placeholders
}

// Placeholders are how room is requested of an autoscaler.
type Placeholders struct {
	Image string
	// SizeOf returns the ResourceLimit of a pod, nil if it has none.
	SizeOf func(*corev1.Pod) *v1alpha1.ResourceLimit
}

// Controller is a manager.Runnable that works on the leader only. It looks at
// one workload after the other in one goroutine, so that budgets need no lock.
type Controller struct {
	Options
	wake chan struct{}
	// These are for Look alone, of which one runs at a time.
	// released are the placeholders that were deleted of late, and when.
	released map[types.UID]time.Time
	// due says when time alone will have changed something.
	due *timetable
	// roomless are the groups of which a replica could move if a type had room, room what the cluster state said when they were asked about.
	roomless map[policy.GroupKey]map[capacity.Type]bool
	room     map[capacity.Type]uint64
	journal  *journal
	// away is set while the last call to the API server had no answer.
	away bool
	// take takes a snapshot by which room is proven.
	take func(context.Context) (snapshot, error)
	// scales may be nil: then no owner is read.
	scales scales

	mu       sync.Mutex // guards what follows
	dirty    *agenda
	graceEnd time.Time
	retuned  *Tuning // nil if nothing was changed since the last look
	storm    *rebalance.Storm
}

// snapshot answers where pods fit; internal/mix/simulation has the real ones.
type snapshot interface {
	Fits(context.Context, simulation.Question) (simulation.Answer, error)
	Assume(pod *corev1.Pod, node string)
	Close()
}

var (
	_ manager.Runnable               = &Controller{}
	_ manager.LeaderElectionRunnable = &Controller{}
)

// New returns a controller that is not running yet. The error is that of a Config that is invalid.
func New(o Options) (*Controller, error) {
	config, scales := o.Config, scales(nil)
	if config != nil { // tests of what is decided have none
		config = rest.CopyConfig(config)
		config.Timeout = callTimeout
		var err error
		if scales, err = readScales(config); err != nil {
			return nil, err
		}
	}
	return &Controller{
		Options: o, wake: make(chan struct{}, 1), dirty: newAgenda(), released: map[types.UID]time.Time{}, due: newTimetable(),
		journal: newJournal(), roomless: map[policy.GroupKey]map[capacity.Type]bool{}, room: map[capacity.Type]uint64{}, storm: rebalance.NewStorm(o.Storm),
		take:   func(ctx context.Context) (snapshot, error) { return simulation.Take(ctx, config, o.Profile) },
		scales: scales,
	}, nil
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error { return mgr.Add(c) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Controller) NeedLeaderElection() bool { return true }

// debounce lets changes that come together be looked at together.
const debounce = 200 * time.Millisecond

// everything as a key requests all groups of all namespaces.
var everything = policy.GroupKey{}

// Changed requeues a group; an ID of "" means all of the
// namespace, a namespace of "" all there is. It never blocks.
func (c *Controller) Changed(key policy.GroupKey) {
	c.mu.Lock()
	c.dirty.add(key)
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
// can be, what the cluster state shows may be old.
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
	logger.Info("Reconciling the mix of workloads", "resync", c.Resync)
	resync := c.Clock.NewTicker(c.Resync)
	defer resync.Stop()
	c.Changed(everything)
	for {
		due := c.timer()
		select {
		case <-ctx.Done():
			due.Stop()
			return nil
		case <-resync.C():
			c.Changed(everything)
		case <-due.C():
			c.Look(ctx)
		case <-c.wake:
			if !c.pause(ctx, debounce) {
				return nil
			}
			c.Look(ctx)
		}
		due.Stop()
	}
}

// timer fires when the next group is due; the resync comes before a late one.
func (c *Controller) timer() clock.Timer {
	wait := c.Resync
	if next, ok := c.due.next(); ok {
		wait = min(max(next.Sub(c.Clock.Now()), debounce), c.Resync)
	}
	return c.Clock.NewTimer(wait)
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

// clusterNow is what holds for all mixes.
func (c *Controller) clusterNow(now time.Time) rebalance.Cluster {
	spot := c.State.Count(capacity.Spot)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.storm.Count()
	active, until := c.storm.Active(now, spot)
	if began := c.storm.Count() - before; began > 0 {
		storms.Add(float64(began))
	}
	c.Workloads.SetStorm(active)
	if !active {
		until = time.Time{}
	}
	return rebalance.Cluster{
		Now: now, GraceUntil: c.graceEnd, StormUntil: until, Limit: c.ClusterMaxConcurrent, DryRun: c.DryRun,
		SchedulerNames: c.Profile.SchedulerNames, RolloutDeadline: c.MoveTimeout,
	}
}
