// SPDX-License-Identifier: Apache-2.0

// Package capacitymix writes the status of CapacityMixes, and mends slot
// annotations that no longer say what is.
package capacitymix

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
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
	"berth.dev/berth/controllers/board"
)

// FieldOwner is who writes the status, as server-side apply knows it.
const FieldOwner = "berth-controller"

// Options configure the controller. Every field is required.
type Options struct {
	Client client.Client
	Kube   kubernetes.Interface
	Board  *board.Board
	Clock  clock.PassiveClock
	// RepairsPerMinute bounds how many pods are patched; 0 mends none.
	RepairsPerMinute int
}

// Reconciler writes the status of one mix per request. A request without a name
// is for the annotations of the pods of the namespace.
type Reconciler struct {
	Options
	repairs *rate.Limiter
	decided chan event.GenericEvent
}

var _ reconcile.Reconciler = &Reconciler{}

// New returns a reconciler; Setup adds it to a manager.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options: o,
		repairs: rate.NewLimiter(rate.Limit(float64(o.RepairsPerMinute)/60), max(1, o.RepairsPerMinute/10)),
		decided: make(chan event.GenericEvent, 1024),
	}
}

// Setup adds the reconciler to a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("capacitymix").
		// One write takes some milliseconds; a new leader of a large cluster has a thousand to make.
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: 4}).
		WatchesRawSource(source.Channel(r.decided, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// Decided asks for the status of all mixes of a namespace to be brought up to date.
func (r *Reconciler) Decided(namespace string) {
	ask := func(name string) {
		cm := &v1alpha1.CapacityMix{}
		cm.Namespace, cm.Name = namespace, name
		r.decided <- event.GenericEvent{Object: cm}
	}
	var mixes v1alpha1.CapacityMixList
	if err := r.Client.List(context.Background(), &mixes, client.InNamespace(namespace)); err == nil { // reads a cache
		for i := range mixes.Items {
			ask(mixes.Items[i].Name)
		}
	}
	ask("")
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		return reconcile.Result{RequeueAfter: r.repair(ctx, req.Namespace)}, nil
	}
	cm := &v1alpha1.CapacityMix{}
	if err := r.Client.Get(ctx, req.NamespacedName, cm); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if cm.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.write(ctx, cm, compose(cm, r.Board.Namespace(cm.Namespace), r.Clock.Now()))
}

// write applies a status unless it is there already.
func (r *Reconciler) write(ctx context.Context, cm *v1alpha1.CapacityMix, status v1alpha1.CapacityMixStatus) error {
	if equality.Semantic.DeepEqual(cm.Status, status) {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("status of CapacityMix %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	patch.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"))
	patch.SetNamespace(cm.Namespace)
	patch.SetName(cm.Name)
	patch.SetUID(cm.UID) // a mix of the same name that was made meanwhile is another one
	if err := r.Client.Status().Patch(ctx, patch, client.Apply, client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the status of CapacityMix %s/%s: %w", cm.Namespace, cm.Name, err))
	}
	statusWrites.Inc()
	log.FromContext(ctx).V(2).Info("Wrote the status", "mix", cm.Name, "namespace", cm.Namespace, "satisfied", status.SatisfiedCount, "workloads", status.WorkloadCount)
	return nil
}

// key is the name of a pod in logs.
func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// soon is when repairs that had to wait are tried again.
const soon = 10 * time.Second
