// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
)

const (
	workers = 4
	// gather is how long events of an environment's objects are gathered before it is looked at: they come in bursts.
	gather = 200 * time.Millisecond
)

// Labelled are the kinds of which nothing but what has ComponentLabel has to be kept in memory: all but those of which others
// need all.
func Labelled() []client.Object {
	return append(slices.DeleteFunc(watched(), func(kind client.Object) bool {
		switch kind.(type) {
		case *policyv1.PodDisruptionBudget, *v1alpha1.CapacityMix, *v1alpha1.ResourceLimit:
			return true
		}
		return false
	}), &corev1.Pod{})
}

// Add adds the controller to a manager that is not started yet. The manager's cache must keep no others of the kinds of
// Labelled than those with ComponentLabel.
func Add(mgr ctrl.Manager, o Options) (*Reconciler, error) {
	r := &Reconciler{Options: o, everything: make(chan event.GenericEvent, 1)}
	r.tuning.Store(&o.Tuning)
	b := ctrl.NewControllerManagedBy(mgr).Named("environment").
		For(&v1alpha1.Environment{}, builder.WithPredicates(applyset.AsksForMore(v1alpha1.EnvironmentFinalizer))).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: workers})
	for _, kind := range append(watched(), &corev1.Pod{}) {
		b = b.Watches(kind, toEnvironment{})
	}
	if o.Settings.Gateway.Name != "" {
		routes, err := watchRoutes(mgr, r.lookAtAll)
		if err != nil {
			return nil, err
		}
		b = b.WatchesRawSource(routes)
	}
	b = b.WatchesRawSource(source.Channel(r.everything, handler.EnqueueRequestsFromMapFunc(r.all)))
	if err := b.Complete(r); err != nil {
		return nil, fmt.Errorf("add the controller of Environments: %w", err)
	}
	return r, metrics.Registry.Register(&Collector{Reader: mgr.GetClient()})
}

// Retune has all environments looked at by another tuning. It never blocks.
func (r *Reconciler) Retune(t Tuning) {
	r.tuning.Store(&t)
	r.lookAtAll()
}

func (r *Reconciler) lookAtAll() {
	select {
	case r.everything <- event.GenericEvent{Object: &v1alpha1.Environment{}}:
	default: // it is requested already
	}
}

// all requests a look at every environment, whatever it is checked.
func (r *Reconciler) all(ctx context.Context, _ client.Object) (requests []reconcile.Request) {
	var list v1alpha1.EnvironmentList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list Environments: they are looked at when their time comes")
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// History is the kind of which the cache keeps what has ComponentLabel too. It is not watched: no one but the controller writes it.
func History() client.Object { return &appsv1.ControllerRevision{} }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// toEnvironment requests the environment that an object was made for, after a moment.
type toEnvironment struct{}

var _ handler.EventHandler = toEnvironment{}

func (toEnvironment) ask(o client.Object, q queue) {
	name, namespace := o.GetLabels()[v1alpha1.EnvironmentLabel], o.GetLabels()[v1alpha1.EnvironmentNamespaceLabel]
	if name == "" || namespace == "" {
		return
	}
	q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}, gather)
}

// Create implements handler.EventHandler.
func (h toEnvironment) Create(_ context.Context, e event.CreateEvent, q queue) { h.ask(e.Object, q) }

// Update implements handler.EventHandler.
func (h toEnvironment) Update(_ context.Context, e event.UpdateEvent, q queue) { h.ask(e.ObjectNew, q) }

// Delete implements handler.EventHandler.
func (h toEnvironment) Delete(_ context.Context, e event.DeleteEvent, q queue) { h.ask(e.Object, q) }

// Generic implements handler.EventHandler.
func (h toEnvironment) Generic(_ context.Context, e event.GenericEvent, q queue) { h.ask(e.Object, q) }

func compare(a, b client.ObjectKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
