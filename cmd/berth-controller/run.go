// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/environments"
	"berth.dev/berth/controllers/records"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/config/buildinfo"
	"berth.dev/berth/internal/config/program"
	"berth.dev/berth/internal/environments/render"
	kubeclient "berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/kube/leaderguard"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// shutdownTimeout is how long running work may take to end. The lease is released after it, so it bounds how long
	// no one acts.
	shutdownTimeout = 3 * time.Second
	// cacheProbeTimeout bounds one look at whether the caches are filled.
	cacheProbeTimeout = 100 * time.Millisecond
)

// run runs the controllers until the context ends.
func run(ctx context.Context, c *controller.Configuration, src program.Source) error {
	asRead := *c // OwnNamespace fills c in
	log := ctrl.Log.WithName("berth-controller")
	ctx = ctrl.LoggerInto(ctx, log)
	log.Info("Starting", "version", buildinfo.Version(), "controllers", c.Controllers, "dryRun", c.DryRun, "namespaces", c.Namespaces)
	config, err := program.ClientConfig(c.ClientConnection, "berth-controller")
	if err != nil {
		return err
	}
	impatient := rest.CopyConfig(config)
	impatient.Timeout = probeTimeout // what is missing is read again, and a call that hangs is not
	disco, err := discovery.NewDiscoveryClientForConfig(impatient)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := waitForCRDs(ctx, disco, requiredCRDs(c), c.Health); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil // stopped while waiting
	default:
	}
	if err := program.OwnNamespace(&c.LeaderElection.Namespace, &c.Webhook.Namespace, &c.Records.TemplateNamespace); err != nil {
		return err
	}
	o, err := managerOptions(c)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, leaderguard.New(clock.RealClock{}))
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	if err := addProbes(mgr); err != nil {
		return err
	}
	if err := addAll(mgr, c, &program.Reloader{Source: src, Running: &asRead, Log: log}); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the controllers: %w", err)
	}
	return nil
}

// addAll adds what the manager runs, and what changes it when the configuration file does.
func addAll(mgr ctrl.Manager, c *controller.Configuration, r *program.Reloader) error {
	retuneControllers, err := addControllers(mgr, c)
	if err != nil {
		return fmt.Errorf("add the controllers: %w", err)
	}
	retuneServices, err := addServices(mgr, c)
	if err != nil {
		return err
	}
	if r.File == "" {
		return nil
	}
	r.Apply = func(c *controller.Configuration) {
		retuneControllers(c)
		retuneServices(c)
	}
	return mgr.Add(r)
}

func managerOptions(c *controller.Configuration) (ctrl.Options, error) {
	scheme, err := kubeclient.Scheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	metrics, err := program.MetricsOptions(c.Metrics)
	if err != nil {
		return ctrl.Options{}, err
	}
	return ctrl.Options{
		Scheme: scheme,
		// All namespaces, whichever are reconciled: pods of the others use capacity of the nodes too.
		Cache:                         cache.Options{DefaultTransform: trim, ByObject: byObject(c)},
		Metrics:                       metrics,
		HealthProbeBindAddress:        c.Health.BindAddress,
		LeaderElection:                c.LeaderElection.Enabled,
		LeaderElectionID:              c.LeaseName(),
		LeaderElectionNamespace:       c.LeaderElection.Namespace,
		LeaderElectionReleaseOnCancel: true, // nothing runs after Start
		LeaseDuration:                 inSeconds(c.LeaderElection.LeaseDurationSeconds),
		RenewDeadline:                 inSeconds(c.LeaderElection.RenewDeadlineSeconds),
		RetryPeriod:                   inSeconds(c.LeaderElection.RetryPeriodSeconds),
		GracefulShutdownTimeout:       new(shutdownTimeout),
	}, nil
}

// byObject returns what the cache keeps of kinds of which it does not keep what trim leaves.
func byObject(c *controller.Configuration) map[client.Object]cache.ByObject {
	out := childrenOnly(c)
	if c.Runs(controller.ControllerEnvironments) {
		out[&v1alpha1.Environment{}] = cache.ByObject{Transform: trimEnvironment}
	}
	return out
}

// trimEnvironment is trim but for the writers of the spec: the history names the client of each change.
func trimEnvironment(object any) (any, error) {
	object, err := render.TrimWriters(object)
	if o, is := object.(client.Object); is {
		trimAnnotations(o)
	}
	return object, err
}

// trim keeps of an object what controllers read, before the cache keeps it: of the managed fields who paused a mix, and of the
// annotations of Berth's own kinds only Berth's. Controllers write parts of objects, and none as it is in the cache.
func trim(object any) (any, error) {
	if o, is := object.(client.Object); is {
		o.SetManagedFields(writersOfPause(o))
		trimAnnotations(o)
	}
	return object, nil
}

// writersOfPause is who paused a mix, nil for other objects.
func writersOfPause(o client.Object) []metav1.ManagedFieldsEntry {
	cm, is := o.(*v1alpha1.CapacityMix)
	if !is || cm.Spec.Rebalance == nil || !cm.Spec.Rebalance.Paused {
		return nil
	}
	return rebalance.WritersOfPause(rebalance.PausedMix, cm)
}

func trimAnnotations(o client.Object) {
	if reflect.TypeOf(o).Elem().PkgPath() == reflect.TypeFor[v1alpha1.CapacityMix]().PkgPath() {
		o.SetAnnotations(budget.OfPrefix(o.GetAnnotations(), v1alpha1.AnnotationPrefix+"/"))
	}
}

// childrenOnly restricts the cache of some kinds to the objects of DeploymentRecords and Environments.
func childrenOnly(c *controller.Configuration) map[client.Object]cache.ByObject {
	with := func(key string) cache.ByObject {
		has, _ := labels.NewRequirement(key, selection.Exists, nil) // the keys are constants
		return cache.ByObject{Label: labels.NewSelector().Add(*has)}
	}
	kinds := map[reflect.Type]client.Object{}
	if c.Runs(controller.ControllerRecords) {
		for _, kind := range records.Labelled() {
			kinds[reflect.TypeOf(kind)] = kind
		}
	}
	if c.Runs(controller.ControllerEnvironments) {
		for _, kind := range append(environments.Labelled(), environments.History()) {
			kinds[reflect.TypeOf(kind)] = kind
		}
	}
	out := map[client.Object]cache.ByObject{}
	for _, kind := range kinds {
		out[kind] = with(v1alpha1.ComponentLabel)
		if _, is := kind.(*corev1.Pod); is {
			out[kind] = with(v1alpha1.EnvironmentLabel) // the pods of records are not read
		}
	}
	return out
}

func inSeconds(n int32) *time.Duration { return new(time.Duration(n) * time.Second) }

func addProbes(mgr ctrl.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the probes: %w", err)
	}
	// A cache is never filled without the right to list its kind: the log names the right.
	filled := func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), cacheProbeTimeout)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
	if err := mgr.AddReadyzCheck("caches", filled); err != nil {
		return fmt.Errorf("add the probes: %w", err)
	}
	return nil
}
