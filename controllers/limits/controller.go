// SPDX-License-Identifier: Apache-2.0

// Package limits writes the status of ResourceLimits, and keeps those
// from being deleted that pods or workloads have.
package limits

import (
	"context"
	"slices"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/limits/registry"
)

const (
	// FieldOwner is who writes the status, as server-side apply knows it.
	FieldOwner = "berth-controller"
	// writeEvery is the least time between two writes of one status.
	writeEvery = time.Second
	// writesPerSecond and writesAtOnce bound the writes of all statuses together: a hundred sizes of a cluster that
	// starts pods would otherwise cost a hundred writes a second. Each takes the API server as much time as two pods.
	writesPerSecond, writesAtOnce = 5, 100
	// notYet is when a limit is looked at again while it is not known who has it.
	notYet = 200 * time.Millisecond
)

// Options configure the controller. All but Namespaces are required.
type Options struct {
	Client   client.Client
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	// Namespaces are the only ones whose limits are reconciled; empty means all.
	Namespaces []string
}

// Reconciler reconciles one limit per request.
type Reconciler struct {
	Options
	tracker *Tracker
	differs chan event.GenericEvent

	writes *rate.Limiter

	mu sync.Mutex
	// written is when the status of a limit was last written.
	written map[types.NamespacedName]time.Time
}

var _ reconcile.Reconciler = &Reconciler{}

// New returns a reconciler; SetupWithManager adds it to a manager. The tracker's Differs is its.
func New(o Options, t *Tracker) *Reconciler {
	r := &Reconciler{
		Options: o, tracker: t, differs: make(chan event.GenericEvent, 1024),
		writes: rate.NewLimiter(writesPerSecond, writesAtOnce), written: map[types.NamespacedName]time.Time{},
	}
	t.Differs = func(key types.NamespacedName) {
		l := &v1alpha1.ResourceLimit{}
		l.Namespace, l.Name = key.Namespace, key.Name
		r.differs <- event.GenericEvent{Object: l}
	}
	return r
}

// SetupWithManager adds the reconciler and its tracker to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(r.tracker); err != nil { // it waits to lead, as what is not told otherwise does
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("resourcelimit").
		For(&v1alpha1.ResourceLimit{}).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 4}).
		WatchesRawSource(source.Channel(r.differs, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	limit := &v1alpha1.ResourceLimit{}
	if err := r.Client.Get(ctx, req.NamespacedName, limit); err != nil {
		r.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if limit.DeletionTimestamp == nil && len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, limit.Namespace) {
		return reconcile.Result{}, nil // not reconciled
	}
	// Before a limit is let go, what changed a moment ago must count.
	usage, known, err := r.tracker.Usage(ctx, req.NamespacedName, limit.DeletionTimestamp != nil)
	if err != nil || !known {
		return reconcile.Result{RequeueAfter: notYet}, err
	}
	switch decide(limit, usage.referenced()) {
	case guard:
		return reconcile.Result{}, r.setFinalizers(ctx, limit, append(slices.Clone(limit.Finalizers), v1alpha1.ResourceLimitFinalizer))
	case release:
		return reconcile.Result{}, r.letGo(ctx, limit)
	case force:
		if err := r.letGo(ctx, limit); err != nil {
			return reconcile.Result{}, err
		}
		r.Recorder.Eventf(limit, corev1.EventTypeWarning, v1alpha1.EventReasonDeletionForced, "deleted although it was in use: %s", holders(usage.Pods, usage.sorted()))
		return reconcile.Result{}, nil
	}
	return r.writeStatus(ctx, limit, compose(limit, registry.Compile(limit).Err, usage, r.Clock.Now()))
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
}

// letGo removes our finalizer and no other.
func (r *Reconciler) letGo(ctx context.Context, limit *v1alpha1.ResourceLimit) error {
	rest := slices.DeleteFunc(slices.Clone(limit.Finalizers), func(f string) bool { return f == v1alpha1.ResourceLimitFinalizer })
	return r.setFinalizers(ctx, limit, rest)
}

// setFinalizers writes the finalizers of the limit that was read, and nothing
// else of it: another writer makes it fail, and it is tried again.
func (r *Reconciler) setFinalizers(ctx context.Context, limit *v1alpha1.ResourceLimit, finalizers []string) error {
	next := limit.DeepCopy()
	next.Finalizers = finalizers
	// If the cache is behind, what it has yet to see brings the limit here again.
	if stale, err := applyset.Finalizers(ctx, r.Client, limit, next); stale || err != nil {
		return err
	}
	log.FromContext(ctx).V(2).Info("Wrote the finalizers", "finalizers", finalizers)
	return nil
}

// writeStatus applies a status unless it is there already, or the last one was
// written a moment ago.
func (r *Reconciler) writeStatus(ctx context.Context, limit *v1alpha1.ResourceLimit, status v1alpha1.ResourceLimitStatus) (reconcile.Result, error) {
	if equality.Semantic.DeepEqual(limit.Status, status) {
		return reconcile.Result{}, nil
	}
	key := client.ObjectKeyFromObject(limit)
	if wait := r.wait(key); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	kind := v1alpha1.SchemeGroupVersion.WithKind("ResourceLimit")
	if version, err := applyset.Status(ctx, r.Client, kind, limit, &status, FieldOwner); version == "" {
		return reconcile.Result{}, err
	}
	statusWrites.Inc()
	log.FromContext(ctx).V(2).Info("Wrote the status", "pods", status.PodCount, "workloads", status.WorkloadCount)
	r.sayBlocked(limit, &status)
	return reconcile.Result{}, nil
}

// wait returns how long the write of a status has to wait, 0 if it is its turn.
func (r *Reconciler) wait(key types.NamespacedName) time.Duration {
	now := r.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.written[key].Add(writeEvery).Sub(now); wait > 0 {
		return wait
	}
	if !r.writes.AllowN(now, 1) {
		return writeEvery
	}
	r.written[key] = now
	return 0
}

// sayBlocked records once that a deletion waits, and for whom.
func (r *Reconciler) sayBlocked(limit *v1alpha1.ResourceLimit, status *v1alpha1.ResourceLimitStatus) {
	before := meta.FindStatusCondition(limit.Status.Conditions, v1alpha1.ConditionInUse)
	now := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionInUse)
	if now.Reason == v1alpha1.ReasonDeletionBlocked && (before == nil || before.Reason != now.Reason) {
		r.Recorder.Event(limit, corev1.EventTypeWarning, v1alpha1.EventReasonDeletionBlocked, now.Message)
	}
}
