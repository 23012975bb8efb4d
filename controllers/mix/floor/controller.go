// SPDX-License-Identifier: Apache-2.0

// Package floor keeps the PodDisruptionBudgets that protect minOnDemand (spec.protectFloor of a CapacityMix), and the label that they
// select on the replicas on on-demand nodes.
package floor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
)

// FieldOwner is the field manager of the labels and of the budgets.
const FieldOwner = "berth-controller-floor"

const (
	// debounce is how long a change waits for others of the same workload or namespace.
	debounce = 100 * time.Millisecond
	// apart is added between two reconciles of a whole namespace for each of its groups.
	apart = 2 * time.Millisecond
	// longest bounds the names of a workload, which tenants write.
	longest = 253
)

// Options configure the controller. Every field but Namespaces is required.
type Options struct {
	State *clusterstate.State
	// Synced reports whether everything is known that a decision depends on.
	Synced func() (waitingFor string, ok bool)
	// Reader has the PodDisruptionBudgets, from a cache.
	Reader client.Reader
	Kube   kubernetes.Interface
	Clock  clock.Clock
	// Decided is called where the condition of a mix may be another one.
	Decided func(workloads.Decision)
	// Namespaces are the only ones to reconcile; empty means all.
	Namespaces []string
	// DryRun writes nothing. SetDryRun changes it.
	DryRun bool
}

// Controller reconciles groups of pods, on the leader.
type Controller struct {
	Options
	dryRun  atomic.Bool
	budgets *budgets
	pace    *pace
	// The worker alone uses these: inUse are the pods whose label another client set, awake is when a namespace may be reconciled again.
	inUse *inUse
	awake map[string]time.Time
	// lost is how often the budgets of groups are still to be touched because pods lost their label, touched when that was last.
	lost    map[governing.GroupKey]int
	touched map[governing.GroupKey]time.Time
	// lower are the budgets of groups that are about to require less.
	lower map[governing.GroupKey]lowering

	mu    sync.Mutex // guards what follows
	queue workqueue.TypedRateLimitingInterface[governing.GroupKey]
	// mixes are the names of the mixes with protectFloor, by namespace.
	mixes    map[string]map[string]struct{}
	verdicts map[string]map[governing.GroupKey]*verdict
}

// verdict is what was decided about a group, and the name of its mix.
type verdict struct {
	mix string
	floor.Report
}

// lowering is the number that a budget is about to require, and when.
type lowering struct {
	to int
	at time.Time
}

var _ reconcile.TypedReconciler[governing.GroupKey] = &Controller{}

// New returns a controller; SetupWithManager adds it to a manager.
func New(o Options) *Controller {
	c := &Controller{
		Options: o, budgets: newBudgets(), pace: newPace(), inUse: newInUse(), awake: map[string]time.Time{},
		lost: map[governing.GroupKey]int{}, touched: map[governing.GroupKey]time.Time{}, lower: map[governing.GroupKey]lowering{},
		mixes: map[string]map[string]struct{}{}, verdicts: map[string]map[governing.GroupKey]*verdict{},
	}
	c.dryRun.Store(o.DryRun)
	return c
}

// SetupWithManager adds the controller to a manager. It runs on the leader, with one worker.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	budgets := source.TypedKind(mgr.GetCache(), &policyv1.PodDisruptionBudget{}, c.budgetHandler())
	return builder.TypedControllerManagedBy[governing.GroupKey](mgr).Named("floor").
		WithOptions(controller.TypedOptions[governing.GroupKey]{MaxConcurrentReconciles: 1}).
		WatchesRawSource(budgets).
		WatchesRawSource(source.TypedFunc[governing.GroupKey](func(ctx context.Context,
			queue workqueue.TypedRateLimitingInterface[governing.GroupKey],
		) error {
			go c.begin(ctx, queue)
			return nil
		})).
		Complete(c)
}

// everything is the key of all groups of all namespaces.
var everything = governing.GroupKey{}

// begin queues everything once the cluster state has been filled.
func (c *Controller) begin(ctx context.Context, queue workqueue.TypedRateLimitingInterface[governing.GroupKey]) {
	if !workloads.Await(ctx, c.Clock, c.Synced) {
		return
	}
	c.Use(queue)
	queue.Add(everything)
}

// Use sets the queue that changes go to. What changed before that is part of the first reconcile of everything.
func (c *Controller) Use(queue workqueue.TypedRateLimitingInterface[governing.GroupKey]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = queue
}

// SetDryRun sets whether nothing is written from now on.
func (c *Controller) SetDryRun(is bool) {
	if c.dryRun.Swap(is) != is {
		c.Changed(everything)
	}
}

// MixChanged notes whether a mix has protectFloor, or that it is gone.
func (c *Controller) MixChanged(cm *v1alpha1.CapacityMix, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.mixes[cm.Namespace]
	switch {
	case cm.Spec.ProtectFloor && !gone && of == nil:
		c.mixes[cm.Namespace] = map[string]struct{}{cm.Name: {}}
	case cm.Spec.ProtectFloor && !gone:
		of[cm.Name] = struct{}{}
	default:
		if delete(of, cm.Name); len(of) == 0 {
			delete(c.mixes, cm.Namespace)
		}
	}
}

// Changed queues a group; an ID of "" is all of the namespace, a namespace of "" everything. Where no mix has protectFloor and there is no
// budget, nothing is queued.
func (c *Controller) Changed(key governing.GroupKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil || key != everything && !c.concerns(key.Namespace) {
		return
	}
	c.queue.AddAfter(key, debounce)
}

// LabelChanged queues the group whose budget selects the label of a pod that changed: the pod may belong to another one.
func (c *Controller) LabelChanged(namespace, label string) {
	if key, found := c.budgets.of(namespace, label); found {
		c.Changed(key)
	}
}

// concerns reports whether groups of a namespace have a floor that is protected, or was. c.mu is held.
func (c *Controller) concerns(namespace string) bool {
	if len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, namespace) {
		return false
	}
	return len(c.mixes[namespace]) > 0 || len(c.verdicts[namespace]) > 0 || c.budgets.owned(namespace) > 0
}

// namespaces are those with groups whose floor is protected, or was.
func (c *Controller) namespaces() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.budgets.namespaces()
	for name := range c.mixes {
		all[name] = struct{}{}
	}
	for name := range c.verdicts {
		all[name] = struct{}{}
	}
	for name := range all {
		if c.concerns(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Reconcile implements reconcile.TypedReconciler.
func (c *Controller) Reconcile(ctx context.Context, key governing.GroupKey) (reconcile.Result, error) {
	if _, ok := c.Synced(); !ok {
		return reconcile.Result{RequeueAfter: workloads.SyncPoll}, nil // a group that is missing is not known to be gone
	}
	switch {
	case key == everything:
		for _, name := range c.namespaces() {
			c.queue.Add(governing.GroupKey{Namespace: name})
		}
		return reconcile.Result{}, nil
	case key.ID == "":
		return reconcile.Result{RequeueAfter: c.namespace(key.Namespace)}, nil
	}
	wait, err := c.group(ctx, key)
	return reconcile.Result{RequeueAfter: wait}, err
}

// namespace queues the groups of a namespace whose floor is protected, or was. It returns how long to wait where it did so a moment ago:
// users may change budgets at any rate.
func (c *Controller) namespace(name string) (wait time.Duration) {
	now := c.Clock.Now()
	if wait = c.awake[name].Sub(now); wait > 0 {
		return wait
	}
	keys := map[governing.GroupKey]struct{}{}
	for _, g := range c.State.Current(name) {
		if g.Governing.ProtectFloor {
			keys[g.Key] = struct{}{}
		}
	}
	c.budgets.keys(name, keys)
	c.mu.Lock()
	for key := range c.verdicts[name] {
		keys[key] = struct{}{}
	}
	c.mu.Unlock()
	for key := range keys {
		c.queue.Add(key)
	}
	if c.awake[name] = now.Add(time.Duration(len(keys)) * apart); len(keys) == 0 {
		delete(c.awake, name)
	}
	return 0
}

// group reconciles one group, and returns when to do so again, 0 for when it changes.
func (c *Controller) group(ctx context.Context, key governing.GroupKey) (time.Duration, error) {
	label := governing.FloorLabel(key)
	missing := func() int { return c.State.MissingSuccessors(key.Namespace, key.ID, label) }
	before := missing() // a successor may come between the two readings
	g := c.State.Group(key)
	d := floor.Decide(floor.Input{
		Key: key, Group: g, InUse: c.inUse.has, Missing: max(before, missing()), Labelled: c.State.Labelled(key.Namespace, label),
		TypeOf:      func(node string) capacity.Type { return c.State.Node(node).Type },
		TooMany:     c.budgets.exceeds(key.Namespace),
		Overlapping: c.budgets.overlapping(key),
	})
	if c.dryRun.Load() {
		c.note(key, nil, floor.Verdict{})
		return 0, nil
	}
	wait, err := c.carryOut(ctx, key, g, &d)
	if err != nil && ctx.Err() == nil && !d.Fails() {
		d.Verdict = refusal(err)
	}
	c.note(key, g, d.Verdict)
	return wait, err
}

// refusal is the verdict about a write that failed.
func refusal(err error) floor.Verdict {
	return floor.Unprotected(v1alpha1.ReasonBudgetRefused, "the API server does not accept what protects the floor: %s",
		applyset.Shorten(err.Error(), maxRefusal)).Verdict
}

// note remembers what was decided about a group, and has the status of its mix composed where that is another one than before.
func (c *Controller) note(key governing.GroupKey, g *clusterstate.Group, v floor.Verdict) {
	var is *verdict
	if g != nil && g.Governing.ProtectFloor {
		name := applyset.Shorten(g.Workload.String(), longest)
		is = &verdict{mix: g.Governing.CapacityMix(), Report: floor.Report{Workload: name, Verdict: v}}
	}
	was := c.remember(key, is)
	if ptr.Equal(was, is) {
		return
	}
	d := workloads.Decision{Namespace: key.Namespace, Mixes: map[string]bool{}}
	for _, v := range []*verdict{was, is} {
		if v != nil && v.mix != "" {
			d.Mixes[v.mix] = true
		}
	}
	c.Decided(d)
}

// remember replaces the verdict about a group, nil for none, and returns the one of before.
func (c *Controller) remember(key governing.GroupKey, is *verdict) (was *verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.verdicts[key.Namespace]
	was = all[key]
	switch {
	case is == nil:
		if delete(all, key); len(all) == 0 {
			delete(c.verdicts, key.Namespace)
		}
	case all == nil:
		c.verdicts[key.Namespace] = map[governing.GroupKey]*verdict{key: is}
	default:
		all[key] = is
	}
	return was
}

// Reports returns what was decided about the groups of a mix, in no order.
func (c *Controller) Reports(namespace, mix string) (list []floor.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.verdicts[namespace] {
		if v.mix == mix {
			list = append(list, v.Report)
		}
	}
	return list
}
