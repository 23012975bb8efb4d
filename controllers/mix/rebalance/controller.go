// SPDX-License-Identifier: Apache-2.0

// Package rebalance moves replicas that run on the wrong capacity type to the right one, through the Eviction API and a few
// at a time. internal/mix/rebalance makes the decisions. This package gathers the facts, proves that there is capacity, and
// evicts.
package rebalance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// Options configure the controller. Every field is required, but for the Journal, Requests and Quarantine.
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
	// Pauses are those of the cluster and of namespaces; nil in tests of decisions: there are none.
	Pauses *Pauses
	// Health is the health gate, nil for none.
	Health *HealthGate
	// Requests are the requests of others to evict pods, nil where the API server has none.
	Requests Requests
	// Quarantine returns the interruption domains that are in quarantine, nil for none. It is called for each snapshot. It is nil where
	// nothing counts interruptions.
	Quarantine func(context.Context) *interruptions.Quarantine
	// Decided is called after workloads of a namespace were reconciled.
	Decided func(workloads.Decision)

	// Journal is the ConfigMap that has the moves under way for a new leader; without a name there is none.
	Journal types.NamespacedName

	Namespaces []string // only these; empty: all
	// Debounce is how long a changed workload waits, so that changes that come together are reconciled together.
	Debounce     time.Duration
	Resync       time.Duration
	Tuning       // the first one; the worker alone reads it
	Grace        time.Duration
	Storm        rebalance.StormSettings
	Placeholders Placeholders
}

// Tuning is what can be changed while the controller runs.
type Tuning struct {
	DryRun bool
	// Defaults apply to the fields that a mix does not set.
	Defaults             rebalance.Settings
	ClusterMaxConcurrent int
	// Canary restricts moves to some mixes, nil for no restriction.
	Canary *rebalance.Canary
	// ClusterMaxPerHour is how many moves may begin within an hour, 0 for no bound.
	ClusterMaxPerHour   int
	Backoff, MaxBackoff time.Duration
	MoveTimeout         time.Duration
	// Request has pods that name responders moved by EvictionRequests, where the API server has them.
	Request bool
}

// Placeholders configure the pods that request capacity from an autoscaler.
type Placeholders struct {
	Image string
	// SizeOf returns the ResourceLimit of a pod, nil if it has none.
	SizeOf func(*corev1.Pod) *v1alpha1.ResourceLimit
}

// Controller reconciles workloads on the leader, one after the other: budgets need no lock.
type Controller struct {
	Options
	// The worker alone uses these.
	api     *calls
	proof   *prover
	holders *holders
	leavers *leavers
	asked   *requester
	out     *reporter
	lacking lacking
	// empty are the workloads without pods that are kept until their moves are over.
	empty   map[governing.GroupKey]struct{}
	journal *journal
	// round is set while the workloads of a reconcile of everything are in the queue, first has the decisions of the first one.
	round *round
	first map[string]*workloads.Decision
	// neighbours are those of the workload that is evaluated, nil if they were not read.
	neighbours *rebalance.Neighbours
	// scales is nil in tests of decisions: then no scale is read.
	scales *scaleReader

	mu       sync.Mutex // guards what follows
	queue    workqueue.TypedRateLimitingInterface[governing.GroupKey]
	graceEnd time.Time
	retuned  *Tuning // nil if nothing was changed since the last reconcile of everything
	storm    *rebalance.Storm
}

var _ reconcile.TypedReconciler[governing.GroupKey] = &Controller{}

// New returns a controller; SetupWithManager adds it to a manager. The error is that of an invalid Config.
func New(o Options) (*Controller, error) {
	config, scales, metadata, owned := o.Config, scales(nil), metadata(nil), (*owners)(nil)
	if config != nil { // tests of decisions have none
		config = rest.CopyConfig(config)
		config.Timeout = callTimeout
		live, err := client.New(config, client.Options{}) // kinds are discovered when the first object of theirs is read
		if err != nil {
			return nil, fmt.Errorf("make a client for scales and metadata: %w", err)
		}
		scales, metadata, owned = readScales(live), readMetadata(live), newOwners(o.Client, live, o.Clock)
	}
	c := &Controller{
		Options: o, first: map[string]*workloads.Decision{},
		empty:   map[governing.GroupKey]struct{}{},
		lacking: lacking{workloads: map[governing.GroupKey]map[capacity.Type]uint64{}, versions: map[capacity.Type]uint64{}},
		storm:   rebalance.NewStorm(o.Storm),
	}
	c.api = &calls{Options: &c.Options, outage: c.Outage, metadata: metadata}
	c.journal = newJournal(&c.Options, c.api, c.Changed)
	c.out = &reporter{&c.Options}
	again := func(key governing.GroupKey, after time.Duration) { c.queue.AddAfter(key, after) }
	c.holders = &holders{Options: &c.Options, api: c.api, released: map[types.UID]time.Time{}, again: again}
	c.leavers = &leavers{
		Options: &c.Options, api: c.api, tried: map[types.UID]retirement{}, again: again,
		grace: func() time.Time { return c.clusterNow().GraceUntil },
	}
	c.asked = &requester{
		Options: &c.Options, api: c.api, left: map[types.UID]withdrawal{},
		orphans: orphans{Options: &c.Options, moves: c.journal.complete},
	}
	c.proof = &prover{
		Options: &c.Options, api: c.api, owners: owned, released: c.holders.released,
		take: func(ctx context.Context) (snapshot, error) {
			return simulation.TakeWatched(ctx, patient(config), o.Profile, o.State)
		},
	}
	if scales != nil {
		c.scales = newScaleReader(scales, o.Clock, c.Changed)
	}
	return c, nil
}

// patient is a configuration for snapshots. A list may wait in the queue of an API server with much to do.
func patient(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Timeout = snapshotSilence
	return config
}

// SetupWithManager adds the controller to a manager. It runs on the leader, with one worker.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.TypedControllerManagedBy[governing.GroupKey](mgr).Named("rebalance").
		WithOptions(controller.TypedOptions[governing.GroupKey]{MaxConcurrentReconciles: 1, NewQueue: c.newQueue}).
		WatchesRawSource(source.TypedFunc[governing.GroupKey](func(ctx context.Context,
			queue workqueue.TypedRateLimitingInterface[governing.GroupKey],
		) error {
			go c.begin(ctx, queue)
			return nil
		})).
		Complete(c)
}

// begin queues everything once the cluster state has been filled.
func (c *Controller) begin(ctx context.Context, queue workqueue.TypedRateLimitingInterface[governing.GroupKey]) {
	c.Outage(c.Clock.Now())
	if !workloads.Await(ctx, c.Clock, c.Synced) {
		return
	}
	log.FromContext(ctx).Info("Reconciling the mix of workloads", "resync", c.Resync)
	c.Use(queue)
	queue.Add(everything)
}

// Use sets the queue that changes go to. What changed before that is part of the first reconcile of everything.
func (c *Controller) Use(queue workqueue.TypedRateLimitingInterface[governing.GroupKey]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = queue
}

// everything is the key of all workloads of all namespaces.
var everything = governing.GroupKey{}

// Changed queues a workload; an ID of "" is all of the namespace, a namespace of "" everything. It never waits for a
// reconcile.
func (c *Controller) Changed(key governing.GroupKey) {
	c.mu.Lock()
	queue := c.queue
	c.mu.Unlock()
	if queue != nil && (key == everything || c.reconciles(key.Namespace)) {
		queue.AddAfter(key, c.Debounce)
	}
}

func (o *Options) reconciles(namespace string) bool {
	return len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace)
}

// NodeLeft counts a spot node that was lost. What autoscalers and administrators take away is no sign of more to come.
func (c *Controller) NodeLeft(d clusterstate.Departure) {
	if d.Type != capacity.Spot || !d.Cause.Lost(d.Empty) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storm.NodeLeft(d.Name, c.Clock.Now(), d.Staying) {
		storms.Inc()
		c.Workloads.SetStorm(true)
	}
}

// Outage notes that the API server could not be read. The cluster state may be old until some time after it can be.
func (c *Controller) Outage(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := at.Add(c.Grace); end.After(c.graceEnd) {
		c.graceEnd = end
	}
}

// Retune has everything reconciled with another tuning. It never waits for a reconcile. What is being moved stays so, with
// the new times.
func (c *Controller) Retune(t Tuning) {
	c.mu.Lock()
	c.retuned = &t
	c.mu.Unlock()
	c.Changed(everything)
}

// applyTuning reports whether the tuning is another one than before.
func (c *Controller) applyTuning() (another bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retuned == nil {
		return false
	}
	c.Tuning, c.retuned = *c.retuned, nil
	return true
}

// clusterNow is what holds for all mixes.
func (c *Controller) clusterNow() rebalance.Cluster {
	now := c.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	active, until := c.storm.Active(now)
	c.Workloads.SetStorm(active)
	return rebalance.Cluster{
		Now: now, GraceUntil: c.graceEnd, StormUntil: until, Limit: c.ClusterMaxConcurrent, DryRun: c.DryRun,
		SchedulerNames: c.Profile.SchedulerNames, RolloutDeadline: c.MoveTimeout, Canary: c.Canary, Health: c.Health.Now(),
		Requests: c.Request && c.Requests != nil,
	}
}
