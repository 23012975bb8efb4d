// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/prometheus"
	"berth.dev/berth/internal/records/render"
)

const (
	workers = 8
	// eventDelay is how long a record waits for more events of its children, which come in bursts.
	eventDelay = 300 * time.Millisecond
	// discoveryInterval is how often the served API groups are read.
	discoveryInterval = 10 * time.Second
)

// Options configure the controller.
type Options struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	// Settings and Environment are what is rendered with. The controller sets Environment.Missing.
	Settings    render.Settings
	Environment render.Environment
	Features    render.Features
	// TemplateNamespace has the templates for records of all namespaces.
	TemplateNamespace string
	// Namespaces are the only ones whose records are reconciled; empty means all.
	Namespaces []string
	// Prometheus measures the records, within Limits. It is nil if they are not measured.
	Prometheus *prometheus.Client
	Limits     nfr.Settings
}

// Controller reconciles DeploymentRecords and DeploymentTemplates.
type Controller struct {
	Options
	capabilities capabilities
	proven       proven
}

var _ reconcile.Reconciler = &Controller{}

// New returns a controller. SetupWithManager adds it to a manager.
func New(o Options) *Controller { return &Controller{Options: o} }

// SetupWithManager adds the controllers of records and templates to a manager that is not started yet, and the analyzer if
// there is a Prometheus. The manager's cache must have no others of the kinds of Labelled than those with OwnerLabel.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	disco, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return fmt.Errorf("create a discovery client: %w", err)
	}
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return err
	}
	changed := make(chan event.GenericEvent, 1)
	owner := applyset.Delayed(handler.EnqueueRequestForOwner(
		mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.DeploymentRecord{}, handler.OnlyControllerOwner(),
	), eventDelay)
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return applyset.Requests(ctx, c.Client, &v1alpha1.DeploymentRecordList{})
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("deploymentrecord").
		For(&v1alpha1.DeploymentRecord{}, builder.WithPredicates(applyset.SpecOrMetadataChanged(v1alpha1.RecordFinalizer))).
		WithOptions(ctrlcontroller.Options{MaxConcurrentReconciles: workers}).
		// The status of a template counts its records, which concerns no other record.
		Watches(&v1alpha1.DeploymentTemplate{}, c.ofTemplate(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(changed, all))
	for _, kind := range watched() {
		b = b.Watches(kind, owner)
	}
	built, err := b.Build(c)
	if err != nil {
		return fmt.Errorf("add the controller of DeploymentRecords: %w", err)
	}
	c.capabilities.groups = disco.ServerGroups
	c.capabilities.changed = func() { changed <- event.GenericEvent{Object: &v1alpha1.DeploymentTemplate{}} }
	c.capabilities.appeared = func() bool {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(knativeService)
		if err := built.Watch(source.Kind(mgr.GetCache(), client.Object(service), owner)); err != nil {
			log.Log.Error(err, "Cannot watch Knative Services")
			return false
		}
		return true
	}
	if err := addTemplates(mgr, c); err != nil {
		return err
	}
	if c.Prometheus != nil {
		if err := mgr.Add(&analyzer{Controller: c, up: map[types.NamespacedName]nfr.Uptime{}}); err != nil {
			return err
		}
	}
	if err := metrics.Registry.Register(NewCollector(mgr.GetClient())); err != nil {
		return fmt.Errorf("register the metric of DeploymentRecords: %w", err)
	}
	return mgr.Add(&c.capabilities)
}
