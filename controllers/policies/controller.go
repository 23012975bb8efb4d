// SPDX-License-Identifier: Apache-2.0

// Package policies writes the status of SchedulingPolicies.
package policies

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/writelimit"
	"berth.dev/berth/internal/policies/registry"
)

const (
	// FieldOwner writes the status.
	FieldOwner = "berth-controller"
	// writeEvery is the least time between two writes of one status.
	writeEvery = time.Second
	// writesPerSecond and writesAtOnce bound the writes of all statuses together.
	writesPerSecond, writesAtOnce = 5, 100
	// excessPerSecond and excessAtOnce bound those of policies that govern no pod because their namespace has too many. A
	// namespace can have any number of these, so they must not delay the others.
	excessPerSecond, excessAtOnce = 1, 60
	// excessDelay is how long such a policy waits before it tries again to have its status written.
	excessDelay = time.Minute
)

// Options configure the controller. All but Namespaces are required.
type Options struct {
	Client client.Client
	Clock  clock.PassiveClock
	// Pods are the pods of the cluster state.
	Pods Pods
	// Synced reports whether the informers have synced.
	Synced func() bool
	// Namespaces are the only ones whose policies are reconciled; empty means all.
	Namespaces []string
}

// Controller reconciles SchedulingPolicies.
type Controller struct {
	Options
	policies *registry.Registry
	// queue has the namespaces to count.
	queue   workqueue.TypedDelayingInterface[string]
	differs chan event.GenericEvent

	statuses       *writelimit.Limiter
	writes, excess *rate.Limiter

	mu sync.Mutex
	// counted are the policies by namespace and name, as of the last count of the namespace.
	counted map[string]map[string]usage
	// took is how long the last count of a namespace took.
	took map[string]time.Duration
}

var _ reconcile.Reconciler = &Controller{}

// New returns a controller. SetupWithManager adds it to a manager.
func New(o Options) *Controller {
	return &Controller{
		Options:  o,
		policies: registry.New(),
		queue:    workqueue.NewTypedDelayingQueue[string](),
		differs:  make(chan event.GenericEvent, 1024),
		statuses: writelimit.New(writeEvery),
		writes:   rate.NewLimiter(writesPerSecond, writesAtOnce),
		excess:   rate.NewLimiter(excessPerSecond, excessAtOnce),
		counted:  map[string]map[string]usage{},
		took:     map[string]time.Duration{},
	}
}

// SetupWithManager adds the controller to a manager. It runs on the leader.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(c.count)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("schedulingpolicy").
		For(&v1alpha1.SchedulingPolicy{}).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 4}).
		WatchesRawSource(source.Channel(c.differs, &handler.EnqueueRequestForObject{})).
		Complete(c)
}

// manages reports whether the policies of a namespace are reconciled.
func (c *Controller) manages(namespace string) bool {
	return len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, namespace)
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	policy := &v1alpha1.SchedulingPolicy{}
	if err := c.Client.Get(ctx, req.NamespacedName, policy); err != nil {
		c.statuses.Forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	u, known := c.usage(policy)
	if !known {
		return reconcile.Result{}, nil // the next count of the namespace requeues it
	}
	return c.writeStatus(ctx, policy, compose(policy, u, c.Clock.Now()), u.tooMany)
}

// writeStatus applies a status if it has changed and the last one was not written a moment ago.
func (c *Controller) writeStatus(
	ctx context.Context, policy *v1alpha1.SchedulingPolicy, status v1alpha1.SchedulingPolicyStatus, excess bool,
) (reconcile.Result, error) {
	if equality.Semantic.DeepEqual(policy.Status, status) {
		return reconcile.Result{}, nil
	}
	if wait := c.wait(client.ObjectKeyFromObject(policy), excess); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	kind := v1alpha1.SchemeGroupVersion.WithKind("SchedulingPolicy")
	if version, err := applyset.Status(ctx, c.Client, kind, policy, &status, FieldOwner); version == "" {
		return reconcile.Result{}, err
	}
	statusWrites.Inc()
	log.FromContext(ctx).V(2).Info("Wrote the status", "pods", status.PodCount)
	return reconcile.Result{}, nil
}

// wait returns how long the write of a status has to wait, 0 if it is its turn.
func (c *Controller) wait(key types.NamespacedName, excess bool) time.Duration {
	if excess {
		return c.statuses.Wait(key, c.Clock.Now(), c.excess, excessDelay)
	}
	return c.statuses.Wait(key, c.Clock.Now(), c.writes, writeEvery)
}
