// SPDX-License-Identifier: Apache-2.0

// Package limits writes the status of ResourceLimits, and keeps those from being deleted that pods or workloads use.
package limits

import (
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/writelimit"
	"berth.dev/berth/internal/limits/registry"
)

const (
	// FieldOwner writes the status.
	FieldOwner = "berth-controller"
	// writeEvery is the least time between two writes of one status.
	writeEvery = time.Second
	// writesPerSecond and writesAtOnce bound the writes of all statuses together: a hundred sizes of a cluster that
	// starts pods would otherwise cost a hundred writes a second. Each takes the API server as much time as two pods.
	writesPerSecond, writesAtOnce = 5, 100
	// usageDelay is how long a limit waits until its usage is known.
	usageDelay = 200 * time.Millisecond
	// exceedsDelay is how long a limit whose namespace has too many waits until it is checked again.
	exceedsDelay = time.Minute
)

// Options configure the controller. All but Namespaces are required.
type Options struct {
	Client   client.Client
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	// Tracker counts the pods and workloads of limits. New sets its Differs.
	Tracker *Tracker
	// Namespaces are the only ones whose limits are reconciled; empty means all.
	Namespaces []string
}

// Controller reconciles ResourceLimits.
type Controller struct {
	Options
	differs chan event.GenericEvent

	statuses *writelimit.Limiter
	writes   *rate.Limiter
}

var _ reconcile.Reconciler = &Controller{}

// New returns a controller. SetupWithManager adds it to a manager.
func New(o Options) *Controller {
	c := &Controller{
		Options:  o,
		differs:  make(chan event.GenericEvent, 1024),
		statuses: writelimit.New(writeEvery), writes: rate.NewLimiter(writesPerSecond, writesAtOnce),
	}
	o.Tracker.Differs = func(key types.NamespacedName) {
		l := &v1alpha1.ResourceLimit{}
		l.Namespace, l.Name = key.Namespace, key.Name
		c.differs <- event.GenericEvent{Object: l}
	}
	return c
}

// SetupWithManager adds the controller and its tracker to a manager. Both run on the leader.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.Add(c.Tracker); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("resourcelimit").
		For(&v1alpha1.ResourceLimit{}).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 4}).
		WatchesRawSource(source.Channel(c.differs, &handler.EnqueueRequestForObject{})).
		Complete(c)
}

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	limit := &v1alpha1.ResourceLimit{}
	if err := c.Client.Get(ctx, req.NamespacedName, limit); err != nil {
		c.statuses.Forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if limit.DeletionTimestamp == nil && len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, limit.Namespace) {
		return reconcile.Result{}, nil // not reconciled
	}
	// Before a limit is deleted, what changed a moment ago must count.
	usage, known, err := c.Tracker.Usage(ctx, req.NamespacedName, limit.DeletionTimestamp != nil)
	if err != nil || !known {
		return reconcile.Result{RequeueAfter: usageDelay}, err
	}
	switch decide(limit, usage.referenced()) {
	case guard:
		return reconcile.Result{}, c.setFinalizer(ctx, limit, controllerutil.AddFinalizer)
	case release:
		return reconcile.Result{}, c.setFinalizer(ctx, limit, controllerutil.RemoveFinalizer)
	case force:
		if err := c.setFinalizer(ctx, limit, controllerutil.RemoveFinalizer); err != nil {
			return reconcile.Result{}, err
		}
		c.Recorder.Eventf(limit, corev1.EventTypeWarning, v1alpha1.EventReasonDeletionForced,
			"deleted although it was in use: %s", holders(usage.Pods, usage.sorted()))
		return reconcile.Result{}, nil
	}
	return c.report(ctx, limit, usage)
}

// report writes the status of a limit.
func (c *Controller) report(ctx context.Context, limit *v1alpha1.ResourceLimit, usage *Usage) (reconcile.Result, error) {
	result, err := c.writeStatus(ctx, limit, compose(limit, registry.Compile(limit).Err, usage, c.Clock.Now()))
	if usage.Exceeds && err == nil && result.IsZero() {
		result.RequeueAfter = exceedsDelay // an older one may be gone by then
	}
	return result, err
}

// setFinalizer adds our finalizer to the limit that was read, or removes it, and writes nothing else of it.
func (c *Controller) setFinalizer(ctx context.Context, limit *v1alpha1.ResourceLimit, set func(client.Object, string) bool) error {
	// If the limit was stale, the update of the cache requeues it.
	if stale, err := applyset.SetFinalizer(ctx, c.Client, limit, v1alpha1.ResourceLimitFinalizer, set); stale || err != nil {
		return err
	}
	log.FromContext(ctx).V(2).Info("Wrote the finalizers", "finalizers", limit.Finalizers)
	return nil
}

// writeStatus applies a status if it has changed and the last one was not written a moment ago.
func (c *Controller) writeStatus(
	ctx context.Context, limit *v1alpha1.ResourceLimit, status v1alpha1.ResourceLimitStatus,
) (reconcile.Result, error) {
	if equality.Semantic.DeepEqual(limit.Status, status) {
		return reconcile.Result{}, nil
	}
	if wait := c.wait(client.ObjectKeyFromObject(limit)); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	kind := v1alpha1.SchemeGroupVersion.WithKind("ResourceLimit")
	if version, err := applyset.Status(ctx, c.Client, kind, limit, &status, FieldOwner); version == "" {
		return reconcile.Result{}, err
	}
	statusWrites.Inc()
	log.FromContext(ctx).V(2).Info("Wrote the status", "pods", status.PodCount, "workloads", status.WorkloadCount)
	c.eventIfBlocked(limit, &status)
	return reconcile.Result{}, nil
}

// wait returns how long the write of a status has to wait, 0 if it is its turn.
func (c *Controller) wait(key types.NamespacedName) time.Duration {
	return c.statuses.Wait(key, c.Clock.Now(), c.writes, writeEvery)
}

// eventIfBlocked records once that a deletion waits, and for which workloads.
func (c *Controller) eventIfBlocked(limit *v1alpha1.ResourceLimit, status *v1alpha1.ResourceLimitStatus) {
	before := meta.FindStatusCondition(limit.Status.Conditions, v1alpha1.ConditionInUse)
	now := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionInUse)
	if now.Reason == v1alpha1.ReasonDeletionBlocked && (before == nil || before.Reason != now.Reason) {
		c.Recorder.Event(limit, corev1.EventTypeWarning, v1alpha1.EventReasonDeletionBlocked, now.Message)
	}
}
