// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
)

const (
	workers = 8
	// lookAround is how often the served API groups are read.
	lookAround = 10 * time.Second
)

// Add adds the controllers of records and templates to a manager that is not started yet. The manager's
// cache must keep no others of the kinds of Labelled than those with OwnerLabel.
func Add(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	r := &Reconciler{Options: o}
	all := make(chan event.GenericEvent, 1)
	r.around = &surroundings{groups: disco.ServerGroups, every: lookAround, changed: func() {
		all <- event.GenericEvent{Object: &v1alpha1.DeploymentTemplate{}}
	}}
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	owner := soon{handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.DeploymentRecord{}, handler.OnlyControllerOwner())}
	everything := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return r.everything(ctx) })
	b := ctrl.NewControllerManagedBy(mgr).Named("deploymentrecord").
		For(&v1alpha1.DeploymentRecord{}, builder.WithPredicates(applyset.AsksForMore(v1alpha1.RecordFinalizer))).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: workers}).
		// Its status counts records: that one more is rendered concerns no other.
		Watches(&v1alpha1.DeploymentTemplate{}, everything, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(all, everything))
	for _, kind := range watched() {
		b = b.Watches(kind, owner)
	}
	c, err := b.Build(r)
	if err != nil {
		return nil, fmt.Errorf("add the controller of DeploymentRecords: %w", err)
	}
	r.around.appeared = func() bool {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(knativeService)
		if err := c.Watch(source.Kind(mgr.GetCache(), client.Object(service), handler.EventHandler(owner))); err != nil {
			log.Log.Error(err, "Cannot watch Knative Services")
			return false
		}
		return true
	}
	if err := addTemplates(mgr, r); err != nil {
		return nil, err
	}
	return r, mgr.Add(r.around)
}

// gather is how long events of a record's objects are gathered before it is looked at: they come in bursts.
const gather = 300 * time.Millisecond

// soon is a handler whose requests wait for a moment.
type soon struct{ handler.EventHandler }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// waiting is a queue to which requests come after gather.
type waiting struct{ queue }

// Add implements workqueue.TypedInterface.
func (w waiting) Add(r reconcile.Request) { w.AddAfter(r, gather) }

// Create implements handler.EventHandler.
func (h soon) Create(ctx context.Context, e event.CreateEvent, q queue) {
	h.EventHandler.Create(ctx, e, waiting{q})
}

// Update implements handler.EventHandler.
func (h soon) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	h.EventHandler.Update(ctx, e, waiting{q})
}

// Delete implements handler.EventHandler.
func (h soon) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	h.EventHandler.Delete(ctx, e, waiting{q})
}

// everything are all records: a template or an API group has changed.
func (r *Reconciler) everything(ctx context.Context) (list []reconcile.Request) {
	var records v1alpha1.DeploymentRecordList
	if err := r.Client.List(ctx, &records, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list DeploymentRecords")
		return nil
	}
	for i := range records.Items {
		list = append(list, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: records.Items[i].Namespace, Name: records.Items[i].Name}})
	}
	return list
}
