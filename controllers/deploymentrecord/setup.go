// SPDX-License-Identifier: Apache-2.0

package deploymentrecord

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	workers = 8
	// lookForGroups is how often it is asked which API groups are served.
	lookForGroups = 10 * time.Second
)

// Add adds the controller to a manager that is not started yet. The manager's
// cache must keep no others of the kinds of Labelled than those with OwnerLabel.
func Add(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	r := &Reconciler{Options: o}
	all := make(chan event.GenericEvent, 1)
	r.groups = &groups{list: disco.ServerGroups, every: lookForGroups, changed: func() {
		all <- event.GenericEvent{Object: &v1alpha1.DeploymentTemplate{}}
	}}
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.DeploymentRecord{}, handler.OnlyControllerOwner())
	everything := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return r.everything(ctx) })
	b := ctrl.NewControllerManagedBy(mgr).Named("deploymentrecord").
		For(&v1alpha1.DeploymentRecord{}).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: workers}).
		Watches(&v1alpha1.DeploymentTemplate{}, everything).
		WatchesRawSource(source.Channel(all, everything))
	for _, kind := range append(Labelled(), &v1alpha1.CapacityMix{}, &v1alpha1.ResourceLimit{}) {
		b = b.Watches(kind, owner)
	}
	c, err := b.Build(r)
	if err != nil {
		return nil, fmt.Errorf("add the controller of DeploymentRecords: %w", err)
	}
	r.groups.appeared = func() bool {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(knativeService)
		if err := c.Watch(source.Kind(mgr.GetCache(), client.Object(service), owner)); err != nil {
			log.Log.Error(err, "Cannot watch Knative Services")
			return false
		}
		return true
	}
	return r, mgr.Add(r.groups)
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
