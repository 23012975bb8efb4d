// SPDX-License-Identifier: Apache-2.0

// Package gatefailopen removes the scheduling gate of pods that have waited for too long while no berth-scheduler leads.
// Such a pod gets no slot: any scheduler places it. The rebalancer then assigns it a slot, as to a pod that another scheduler
// bound, and repairs the mix.
package gatefailopen

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/internal/mix/clusterstate"
)

const (
	// slowest and fastest bound the time between two checks of the lease.
	slowest = 5 * time.Second
	fastest = 500 * time.Millisecond
	// hurry is the time until the next check while pods are left that are due.
	hurry = time.Second
	// batch is how many pods one check releases. After it the lease is checked again, and the scheduler of these pods does
	// not get all of them at once.
	batch = 100
	// callTimeout bounds one call of the API server.
	callTimeout = 5 * time.Second
	// withoutLease is added to the patience where there is no lease that shows whether a scheduler runs.
	withoutLease = 120 * time.Second
)

// Options configure a Controller.
type Options struct {
	State *clusterstate.State
	// Listed reports whether the cluster state has all pods: until then the oldest are not known.
	Listed   func() bool
	Kube     kubernetes.Interface
	Recorder record.EventRecorder
	Clock    clock.Clock
	// Lease is the schedulers'. Without a name they run without leader election.
	Lease types.NamespacedName
	// FailOpen is how long no one must have led, and a pod have waited; 0: indefinitely.
	FailOpen time.Duration
	// Namespaces are the only ones to reconcile; empty means all.
	Namespaces []string
	// DryRun opens nothing. SetDryRun changes it.
	DryRun bool
}

// Controller is a manager.Runnable that runs on the leader.
type Controller struct {
	Options
	watch   watch
	waiting waiting
	dryRun  atomic.Bool
	// logged is the last message about the lease.
	logged string
}

var _ manager.Runnable = &Controller{}

// New returns a controller; SetupWithManager adds it to a manager.
func New(o Options) *Controller {
	c := &Controller{Options: o, waiting: waiting{}}
	c.dryRun.Store(o.DryRun)
	// A check may wait for the API server, and be late.
	c.watch = watch{patience: o.FailOpen, gap: 2*c.period() + callTimeout}
	return c
}

// SetupWithManager adds the controller to a manager. It runs on the leader only.
func (c *Controller) SetupWithManager(mgr manager.Manager) error { return mgr.Add(c) }

// SetDryRun sets whether gates are left in place from now on.
func (c *Controller) SetDryRun(is bool) { c.dryRun.Store(is) }

// period is the time between two checks.
func (c *Controller) period() time.Duration { return min(max(c.FailOpen/12, fastest), slowest) }

// patience is how long a pod must have waited.
func (c *Controller) patience() time.Duration {
	if c.Lease.Name == "" {
		return c.FailOpen + withoutLease
	}
	return c.FailOpen
}

// Start releases pods until the context ends.
func (c *Controller) Start(ctx context.Context) error {
	defer waitingPods.Set(0) // another replica counts them
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("gates"))
	for {
		next := c.period()
		if c.check(ctx) {
			next = min(next, hurry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(next):
		}
	}
}

// check releases the pods that have waited for too long, and reports whether some are left.
func (c *Controller) check(ctx context.Context) (more bool) {
	all := within(c.State.Gated(), c.Namespaces)
	waitingPods.Set(float64(len(all)))
	if c.FailOpen <= 0 || !c.Listed() {
		return false
	}
	if len(all) == 0 { // the lease is checked for as long as pods wait, which is long enough
		c.watch.blind()
		clear(c.waiting)
		return false
	}
	leaderless := c.leaderless(ctx)
	due := c.waiting.due(all, c.Clock.Now(), c.patience())
	if !leaderless || len(due) == 0 {
		return false
	}
	logger := log.FromContext(ctx)
	if c.dryRun.Load() {
		logger.V(2).Info("Dry run: pods stay gated that no scheduler opens", "pods", len(due))
		return false
	}
	for i, p := range due {
		if i == batch || ctx.Err() != nil {
			return true
		}
		if err := c.open(ctx, p); err != nil {
			c.waiting[p.UID] = c.Clock.Now() // it waits once more, and the others have their turn
			logger.Error(err, "Cannot remove a scheduling gate", "pod", p.Namespace+"/"+p.Name)
		}
	}
	return false
}

// leaderless reads the lease, and reports whether no one has led for long enough. Where there is no lease, only the time
// counts that the pods have waited.
func (c *Controller) leaderless(ctx context.Context) bool {
	if c.Lease.Name == "" {
		return true
	}
	seen, err := c.see(ctx)
	now := c.Clock.Now()
	if err != nil {
		c.watch.blind()
		c.logOnce(ctx, leaseUnknown, err)
		return false
	}
	c.watch.saw(seen, now)
	if !c.watch.leaderless(now) {
		c.logged = ""
		return false
	}
	c.logOnce(ctx, leaseExpired, nil)
	return true
}

// see reads the lease. One that may not be read is an error, not one that is
// missing.
func (c *Controller) see(ctx context.Context) (sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l, err := c.Kube.CoordinationV1().Leases(c.Lease.Namespace).Get(ctx, c.Lease.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return sighting{}, nil
	}
	if err != nil {
		return sighting{}, fmt.Errorf("read lease %s: %w", c.Lease, err)
	}
	var s sighting
	if l.Spec.HolderIdentity != nil {
		s.holder = *l.Spec.HolderIdentity
	}
	if l.Spec.RenewTime != nil {
		s.renewed = l.Spec.RenewTime.Time
	}
	if l.Spec.LeaseDurationSeconds != nil {
		s.lasts = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
	}
	return s, nil
}

// Messages about the lease.
const (
	leaseUnknown = "Cannot determine whether a scheduler leads: no scheduling gate is removed meanwhile"
	leaseExpired = "No scheduler leads: scheduling gates are removed without a slot"
)

// logOnce logs a message unless it was the last one.
func (c *Controller) logOnce(ctx context.Context, message string, err error) {
	if c.logged == message {
		return
	}
	c.logged = message
	logger := log.FromContext(ctx).WithValues("lease", c.Lease.String(), "dryRun", c.dryRun.Load())
	if err != nil {
		logger.Error(err, message)
		return
	}
	logger.Info(message)
}

// reference is what an event about a pod is recorded on.
func reference(p *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
