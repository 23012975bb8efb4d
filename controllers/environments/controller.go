// SPDX-License-Identifier: Apache-2.0

// Package environments runs Environments: it keeps what they are made of in the
// cluster, starts and stops them stage by stage, and says in the status where
// they stand. What they are made of is decided in internal/environments/render.
package environments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
)

const (
	// FieldOwner is who applies the objects of an environment and writes its status.
	FieldOwner = "berth-environments"
	// resync is how often an environment is looked at although nothing changed, and again one that cannot be run.
	resync, again = 10 * time.Minute, 30 * time.Second
	// notYet is when an environment is looked at again that the cache has not seen as it is.
	notYet = 200 * time.Millisecond
	// leaving is how often one is looked at that is being removed.
	leaving = time.Second
)

var environmentKind = v1alpha1.SchemeGroupVersion.WithKind("Environment")

// Options configure the controller.
type Options struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	Settings render.Settings
	// OwnNamespaces has each environment have a namespace of its own, whose name begins with Prefix.
	OwnNamespaces bool
	Prefix        string
	// NamespaceLabels are labels of those namespaces. CopiedLabels are the keys of labels that they have from the namespace of
	// the Environment, which override them.
	NamespaceLabels map[string]string
	CopiedLabels    []string
	Ports           render.PortRange
	// Tuning is what it starts with; Retune changes it.
	Tuning Tuning
	// Namespaces are the only ones whose environments are reconciled; empty means all.
	Namespaces []string
}

// Tuning is what can be changed while the controller runs.
type Tuning struct {
	// StartTimeout is how long a start may take; CleanUp is how long after that what never ran is removed, 0 for never.
	StartTimeout, CleanUp time.Duration
	// History is how many specs are kept.
	History int
}

// Reconciler reconciles one environment per request.
type Reconciler struct {
	Options
	tuning atomic.Pointer[Tuning]
	// everything requests a look at all environments.
	everything chan event.GenericEvent
	// ports has what was allocated and the cache has not seen yet. One environment is given ports at a time.
	ports struct {
		sync.Mutex
		given map[client.ObjectKey][]v1alpha1.AllocatedPort
	}
	// routeless are the environments, by their keys, that have no HTTPRoutes, where none are made.
	routeless sync.Map
}

var _ reconcile.Reconciler = &Reconciler{}

// refusal is why an environment cannot be run as configured. Reason is that of the condition Degraded.
type refusal struct {
	reason string
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	env := &v1alpha1.Environment{}
	if err := r.Client.Get(ctx, req.NamespacedName, env); err != nil {
		if apierrors.IsNotFound(err) {
			r.forgetPorts(req.NamespacedName)
			r.routeless.Delete(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("environment", env.Name))
	if env.DeletionTimestamp != nil {
		return r.remove(ctx, env)
	}
	if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, env.Namespace) {
		return reconcile.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(env, v1alpha1.EnvironmentFinalizer) {
		return r.setFinalizer(ctx, env, controllerutil.AddFinalizer)
	}
	before := env
	env = env.DeepCopy()
	if env.Status.Namespace == "" {
		env.Status.Namespace = env.Namespace
		if r.OwnNamespaces {
			env.Status.Namespace = render.NamespaceOf(r.Prefix, env.Namespace, env.Name)
		}
	}
	return r.run(ctx, before, env)
}

// own reports whether an environment has its namespace for itself.
func own(env *v1alpha1.Environment) bool { return env.Status.Namespace != env.Namespace }

// run has the cluster have what an environment requests, and says where it stands, if that is not what is said before.
func (r *Reconciler) run(ctx context.Context, before, env *v1alpha1.Environment) (reconcile.Result, error) {
	look, err := r.look(ctx, env)
	if err == nil {
		err = r.bring(ctx, look)
	}
	refused, is := errors.AsType[*refusal](err)
	switch {
	case errors.Is(err, errNotYet):
		return reconcile.Result{RequeueAfter: notYet}, nil
	case errors.Is(err, applyset.ErrNamespaceEnds):
		return reconcile.Result{RequeueAfter: leaving}, nil
	case err != nil && !is:
		return reconcile.Result{}, err
	}
	if err := r.remember(ctx, env); err != nil {
		return reconcile.Result{}, err
	}
	return r.report(ctx, before, look, refused)
}

// look finds out what there is and what there should be. What it returns is never nil.
func (r *Reconciler) look(ctx context.Context, env *v1alpha1.Environment) (*look, error) {
	l := &look{env: env, components: render.Components(&env.Spec.Stack)}
	if errs := render.Validate(&env.Spec); len(errs) > 0 {
		return l, &refusal{ReasonInvalid, errs.ToAggregate()}
	}
	if !own(env) {
		if err := r.alone(ctx, env); err != nil {
			return l, err
		}
	}
	if err := r.allocate(ctx, env); err != nil {
		return l, err
	}
	if err := r.observe(ctx, l); err != nil {
		return l, err
	}
	if r.abandoned(env) {
		l.abandoned = true
		return l, nil
	}
	credentials, err := r.credentials(ctx, l)
	if err != nil {
		return l, err
	}
	l.input = render.Input{
		Environment: env, Settings: r.Settings, Credentials: *credentials, Namespace: env.Status.Namespace, Own: own(env), Ports: env.Status.Ports,
	}
	return l, l.decide(r.Client.Scheme())
}

// abandoned reports whether an environment never came to run in the time that it has, and that after it.
func (r *Reconciler) abandoned(env *v1alpha1.Environment) bool {
	s := &env.Status
	t := r.tuning.Load()
	return t.CleanUp > 0 && s.OpenStages < render.Stages && s.ObservedGeneration == env.Generation && s.StartedAt != nil &&
		s.Phase == v1alpha1.EnvironmentFailed && r.Clock.Since(s.StartedAt.Time) > t.StartTimeout+t.CleanUp
}

// namespace makes sure that the environment has its own namespace, and no other has it.
func (r *Reconciler) namespace(ctx context.Context, env *v1alpha1.Environment) error {
	name := env.Status.Namespace
	ns := &corev1.Namespace{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: name}, ns)
	if apierrors.IsNotFound(err) {
		if ns, err = r.newNamespace(ctx, env); err != nil {
			return err
		}
		if err = r.Client.Create(ctx, ns, client.FieldOwner(FieldOwner)); err == nil {
			log.FromContext(ctx).Info("Created the namespace of an environment", "namespace", name)
			return nil
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("namespace %s: %w", name, err)
	case ns.DeletionTimestamp != nil:
		return applyset.ErrNamespaceEnds
	case !madeFor(ns, env):
		return &refusal{v1alpha1.ReasonNameTaken, fmt.Errorf("there is a namespace %s already that was not made for this environment", name)}
	}
	return nil
}

// newNamespace is the namespace to create for an environment. What is enforced in that of its author is enforced there.
func (r *Reconciler) newNamespace(ctx context.Context, env *v1alpha1.Environment) (*corev1.Namespace, error) {
	labels := maps.Clone(r.NamespaceLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	if len(r.CopiedLabels) > 0 {
		author := &corev1.Namespace{}
		if err := r.Live.Get(ctx, client.ObjectKey{Name: env.Namespace}, author); err != nil {
			return nil, fmt.Errorf("namespace %s: %w", env.Namespace, err)
		}
		for _, key := range r.CopiedLabels {
			if value, has := author.Labels[key]; has {
				labels[key] = value
			}
		}
	}
	maps.Copy(labels, render.Labels(env))
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Status.Namespace, Labels: labels}}, nil
}

// alone refuses a second environment in a namespace that it shares with its object: both would have a Service backend.
func (r *Reconciler) alone(ctx context.Context, env *v1alpha1.Environment) error {
	var all v1alpha1.EnvironmentList
	if err := r.Client.List(ctx, &all, client.InNamespace(env.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Environments: %w", err)
	}
	for i := range all.Items {
		if o := &all.Items[i]; o.UID != env.UID && !own(o) && older(o, env) {
			return &refusal{v1alpha1.ReasonNameTaken, fmt.Errorf("namespace %s has environment %s already, and can have one", env.Namespace, o.Name)}
		}
	}
	return nil
}

func older(a, b *v1alpha1.Environment) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// setFinalizer puts the finalizer on an environment before anything is made for it, or takes it off.
func (r *Reconciler) setFinalizer(ctx context.Context, env *v1alpha1.Environment, set func(client.Object, string) bool) (reconcile.Result, error) {
	after := env.DeepCopy()
	set(after, v1alpha1.EnvironmentFinalizer)
	if _, err := applyset.Finalizers(ctx, r.Client, env, after); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: notYet}, nil
}
