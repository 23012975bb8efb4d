// SPDX-License-Identifier: Apache-2.0

// Package environments runs Environments: it applies their objects, starts and stops them stage by stage, and writes their status.
// internal/environments/validation decides what is refused, and internal/environments/render what is rendered.
package environments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/environments/validation"
	"berth.dev/berth/internal/kube/applyset"
)

const (
	// resyncInterval is how often an environment is reconciled although nothing changed, refusedInterval one that is refused.
	resyncInterval, refusedInterval = 10 * time.Minute, 30 * time.Second
	// cacheDelay is how long an environment waits for the cache.
	cacheDelay = 200 * time.Millisecond
	// deletionInterval is how often an environment is reconciled that is being deleted.
	deletionInterval = time.Second
)

var environmentKind = v1alpha1.SchemeGroupVersion.WithKind("Environment")

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	env := &v1alpha1.Environment{}
	if err := c.Client.Get(ctx, req.NamespacedName, env); err != nil {
		if apierrors.IsNotFound(err) {
			c.forgetPorts(req.NamespacedName)
			c.restarts.forget(req.NamespacedName)
			c.ended.forget(req.NamespacedName)
			c.routeless.Delete(req.NamespacedName)
			c.labeled.Delete(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("environment", env.Name))
	if env.DeletionTimestamp != nil {
		return c.remove(ctx, env)
	}
	if len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, env.Namespace) {
		return reconcile.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(env, v1alpha1.EnvironmentFinalizer) {
		return c.setFinalizer(ctx, env, controllerutil.AddFinalizer)
	}
	if env.Status.Namespace == "" {
		return c.begin(ctx, env)
	}
	return c.run(ctx, env, env.DeepCopy())
}

// begin writes the namespace of an environment before its first object is created, and runs it. The write fails if the environment
// is being deleted or gone, which the cache may not show yet: the API server deletes an object at once, in spite of a finalizer, if
// the finalizer was added while it handled the request for deletion.
func (c *Controller) begin(ctx context.Context, env *v1alpha1.Environment) (reconcile.Result, error) {
	before := c.withNamespace(env)
	version, err := applyset.Status(ctx, c.Client, environmentKind, env, &before.Status, FieldOwner, applyset.OptimisticLock)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	case version == "":
		return reconcile.Result{}, err
	}
	before.ResourceVersion = version
	return c.run(ctx, before, before.DeepCopy())
}

// withNamespace returns a copy of an environment with the namespace of its objects. Its status has none until it begins.
func (c *Controller) withNamespace(env *v1alpha1.Environment) *v1alpha1.Environment {
	env = env.DeepCopy()
	switch {
	case env.Status.Namespace != "":
	case c.OwnNamespaces:
		env.Status.Namespace = render.NamespaceOf(c.Prefix, env.Namespace, env.Name)
	default:
		env.Status.Namespace = env.Namespace
	}
	return env
}

// hasNamespace reports whether an environment has a namespace of its own.
func hasNamespace(env *v1alpha1.Environment) bool { return env.Status.Namespace != env.Namespace }

// run observes an environment, applies what was rendered, and writes the status.
func (c *Controller) run(ctx context.Context, before, env *v1alpha1.Environment) (reconcile.Result, error) {
	observed, err := c.plan(ctx, env)
	if err == nil {
		err = c.apply(ctx, observed)
	}
	refused, is := errors.AsType[*applyset.RefusedError](err)
	switch {
	case errors.Is(err, errNotYet):
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	case errors.Is(err, applyset.ErrNamespaceEnds):
		return reconcile.Result{RequeueAfter: deletionInterval}, nil
	case err != nil && !is:
		return reconcile.Result{}, err
	}
	if err := c.remember(ctx, env); err != nil {
		return reconcile.Result{}, err
	}
	return c.report(ctx, before, observed, refused)
}

// plan observes an environment and decides what is desired. The observation is never nil.
func (c *Controller) plan(ctx context.Context, env *v1alpha1.Environment) (*observation, error) {
	v := &observation{env: env, components: stack.Components(&env.Spec.Stack)}
	if errs := validation.Spec(&env.Spec); len(errs) > 0 {
		return v, applyset.Refuse(v1alpha1.ReasonInvalid, errs.ToAggregate())
	}
	if err := validation.Exposure(env, c.Settings.Exposure, c.Settings.Exposures); err != nil {
		err := fmt.Errorf("%w, by environments.exposures of the controller's configuration", err)
		return v, applyset.Refuse(v1alpha1.ReasonInvalid, err)
	}
	if !hasNamespace(env) {
		if err := c.checkAlone(ctx, env); err != nil {
			return v, err
		}
	}
	if err := c.allocate(ctx, env); err != nil {
		return v, err
	}
	if err := c.observe(ctx, v); err != nil {
		return v, err
	}
	if c.abandoned(env) {
		v.abandoned = true
		return v, nil
	}
	credentials, err := c.credentials(ctx, v)
	if err != nil {
		return v, err
	}
	v.input = render.Input{
		Environment:  env,
		Settings:     c.Settings,
		Credentials:  *credentials,
		Namespace:    env.Status.Namespace,
		Own:          hasNamespace(env),
		Ports:        env.Status.Ports,
		ServicePorts: v.servicePorts(),
		Scaled:       v.scaled(),
	}
	v.components = v.input.Components()
	return v, v.decide(c.Client.Scheme())
}

// abandoned reports whether an environment did not start within its timeout, and the time for clean-up after that is over.
func (c *Controller) abandoned(env *v1alpha1.Environment) bool {
	s := &env.Status
	after := c.cleanUp(env)
	return after > 0 && s.OpenStages < stack.Stages && s.ObservedGeneration == env.Generation && s.StartedAt != nil &&
		s.Phase == v1alpha1.EnvironmentFailed && c.Clock.Since(s.StartedAt.Time) > c.startTimeout(env)+after
}

// ensureNamespace creates the namespace of an environment, and refuses one that was not made for it.
func (c *Controller) ensureNamespace(ctx context.Context, env *v1alpha1.Environment) error {
	name := env.Status.Namespace
	ns := &corev1.Namespace{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: name}, ns)
	if apierrors.IsNotFound(err) {
		if ns, err = c.newNamespace(ctx, env); err != nil {
			return err
		}
		err = c.Client.Create(ctx, ns, client.FieldOwner(FieldOwner))
		if err == nil {
			log.FromContext(ctx).Info("Created the namespace of an environment", "namespace", name)
		}
		return applyset.Refusal("create", "namespace "+name, err)
	}
	switch {
	case err != nil:
		return fmt.Errorf("namespace %s: %w", name, err)
	case ns.DeletionTimestamp != nil:
		return applyset.ErrNamespaceEnds
	case !render.MadeFor(ns, env):
		return applyset.Refuse(v1alpha1.ReasonNameTaken,
			fmt.Errorf("namespace %s already exists and was not made for this environment", name))
	}
	return nil
}

// keepLabels sets the labels of the namespace of an environment again, at each resync: the Pod Security level must not depend on when the
// namespace was made. Other labels stay.
func (c *Controller) keepLabels(ctx context.Context, env *v1alpha1.Environment) error {
	key := client.ObjectKeyFromObject(env)
	at, known := c.labeled.Load(key)
	if !hasNamespace(env) || known && c.Clock.Since(at.(time.Time)) < resyncInterval/2 { //nolint:forcetypeassert // nothing else is stored
		return nil
	}
	ns := &corev1.Namespace{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: env.Status.Namespace}, ns)
	if err != nil || ns.DeletionTimestamp != nil || !render.MadeFor(ns, env) {
		return client.IgnoreNotFound(err)
	}
	want, err := c.newNamespace(ctx, env)
	if err != nil {
		return err
	}
	before := ns.DeepCopy()
	maps.Copy(ns.Labels, want.Labels)
	if !maps.Equal(before.Labels, ns.Labels) {
		if err := c.Client.Patch(ctx, ns, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
			return applyset.Refusal("set the labels of", "namespace "+ns.Name, err)
		}
		log.FromContext(ctx).Info("Set the labels of the namespace of an environment", "namespace", ns.Name)
	}
	c.labeled.Store(key, c.Clock.Now())
	return nil
}

// newNamespace returns the namespace to create for an environment. What is enforced in its author's namespace is enforced there.
func (c *Controller) newNamespace(ctx context.Context, env *v1alpha1.Environment) (*corev1.Namespace, error) {
	author := &corev1.Namespace{}
	if len(c.CopiedLabels) > 0 {
		if err := c.Live.Get(ctx, client.ObjectKey{Name: env.Namespace}, author); err != nil {
			return nil, fmt.Errorf("namespace %s: %w", env.Namespace, err)
		}
	}
	labels := render.NamespaceLabels(c.NamespaceLabels, author.Labels, c.CopiedLabels)
	maps.Copy(labels, render.Labels(env))
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Status.Namespace, Labels: labels}}, nil
}

// checkAlone refuses a second environment in a namespace that it shares with its object: both would have a Service backend.
func (c *Controller) checkAlone(ctx context.Context, env *v1alpha1.Environment) error {
	var all v1alpha1.EnvironmentList
	if err := c.Client.List(ctx, &all, client.InNamespace(env.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Environments: %w", err)
	}
	for i := range all.Items {
		if o := &all.Items[i]; o.UID != env.UID && !hasNamespace(o) && older(o, env) {
			err := fmt.Errorf("namespace %s has environment %s already, and can have one", env.Namespace, o.Name)
			return applyset.Refuse(v1alpha1.ReasonNameTaken, err)
		}
	}
	return nil
}

func older(a, b *v1alpha1.Environment) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID)) < 0
}

// setFinalizer adds the finalizer to an environment before its first object is created, or removes it.
func (c *Controller) setFinalizer(
	ctx context.Context, env *v1alpha1.Environment, set func(client.Object, string) bool,
) (reconcile.Result, error) {
	if _, err := applyset.SetFinalizer(ctx, c.Client, env, v1alpha1.EnvironmentFinalizer, set); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: cacheDelay}, nil
}
