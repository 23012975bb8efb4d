// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

// remove deletes the objects of an environment, and removes its finalizer once they are gone.
func (c *Controller) remove(ctx context.Context, env *v1alpha1.Environment) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(env, v1alpha1.EnvironmentFinalizer) {
		return reconcile.Result{}, nil
	}
	before := env
	env = c.withNamespace(env)
	v := &observation{env: env, components: stack.Components(&env.Spec.Stack)}
	left, err := c.removeAll(ctx, v)
	if err != nil {
		return reconcile.Result{}, err
	}
	if left == "" {
		c.forgetPorts(client.ObjectKeyFromObject(env))
		return c.setFinalizer(ctx, env, controllerutil.RemoveFinalizer)
	}
	v.situation = render.Situation{Environment: env, Components: v.components, Observed: map[string]render.Observed{}}
	waiting := applyset.Refuse(v1alpha1.EventReasonOrphanedResources, fmt.Errorf("waits for %s to be gone", left))
	if _, err := c.report(ctx, before, v, waiting); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: deletionInterval}, nil
}

// removeGone deletes what was just created of an environment that is gone although it had the finalizer: see begin. What has an owner
// is left to the garbage collector.
func (c *Controller) removeGone(ctx context.Context, before *v1alpha1.Environment, v *observation) error {
	switch {
	case before.Status.Phase != "": // someone removed the finalizer
		return nil
	case v.env.Spec.VolumeRetention == v1alpha1.VolumeRetentionRetain: // there may be data of an earlier environment
		return nil
	case hasNamespace(v.env):
		_, err := c.removeNamespace(ctx, v.env)
		return err
	}
	if err := errors.Join(c.observeSecrets(ctx, v), c.observeClaims(ctx, v)); err != nil {
		return err
	}
	return applyset.DeleteAll(ctx, c.Client, slices.DeleteFunc(v.children, func(child applyset.Child) bool { return !holdsData(&child) }))
}

// removeAll deletes the objects of an environment, and returns what is left, "" for nothing.
func (c *Controller) removeAll(ctx context.Context, v *observation) (left string, err error) {
	left, retained, err := c.removeObjects(ctx, v)
	switch {
	case err != nil || left != "":
		return left, err
	case len(retained) > 0:
		return "", c.retain(ctx, v.env, retained)
	case !hasNamespace(v.env):
		return "", nil
	}
	return c.removeNamespace(ctx, v.env)
}

// removeObjects deletes the objects of an environment that are not retained, and returns what is left. Workloads and their pods go
// first, so that what protects them from others lasts as long as they do. To delete the namespace with all its objects would take
// longer: its controller waits for half of the pods' grace period, and for seconds if an object has a finalizer.
func (c *Controller) removeObjects(ctx context.Context, v *observation) (left string, retained []applyset.Child, err error) {
	if err := c.observe(ctx, v); err != nil {
		return "", nil, err
	}
	if err := c.observeClaims(ctx, v); err != nil {
		return "", nil, err
	}
	var workloads, others []applyset.Child
	retain := v.env.Spec.VolumeRetention == v1alpha1.VolumeRetentionRetain && v.hasClaims()
	for _, child := range v.children {
		switch {
		case runsPods(&child):
			workloads = append(workloads, child)
		case retain && holdsData(&child):
			retained = append(retained, child)
		default:
			others = append(others, child)
		}
	}
	remove := workloads
	if len(workloads) == 0 {
		if len(v.pods) > 0 {
			return "Pod " + v.pods[0].Name, nil, nil
		}
		remove = others
	}
	if len(remove) > 0 {
		left = remove[len(remove)-1].String()
	}
	return left, retained, applyset.DeleteAll(ctx, c.Client, remove)
}

// observeClaims reads the claims of an environment in a shared namespace from the API server. They have no owner by which the garbage
// collector would delete them later, so one that was created just now and that the cache does not have would be left.
func (c *Controller) observeClaims(ctx context.Context, v *observation) error {
	if hasNamespace(v.env) {
		return nil
	}
	in, ofEnvironment := client.InNamespace(v.env.Status.Namespace), client.MatchingLabels(render.Labels(v.env))
	found, err := c.set(v.env).List(ctx, c.Live, &corev1.PersistentVolumeClaimList{}, in, ofEnvironment)
	if err != nil {
		return fmt.Errorf("observe the claims of Environment %s/%s: %w", v.env.Namespace, v.env.Name, err)
	}
	v.children = append(slices.DeleteFunc(v.children, func(child applyset.Child) bool { return child.Kind.Kind == claimKind }), found...)
	return nil
}

// runsPods reports whether an object is the workload of a component.
func runsPods(child *applyset.Child) bool {
	switch child.Object.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *batchv1.Job:
		return true
	}
	return false
}

// removeNamespace deletes the namespace that was made for an environment, with all objects in it.
func (c *Controller) removeNamespace(ctx context.Context, env *v1alpha1.Environment) (left string, err error) {
	ns, err := c.namespaceOf(ctx, env)
	if ns == nil || err != nil {
		return "", err
	}
	if err := applyset.Delete(ctx, c.Client, ns); err != nil {
		return "", err
	}
	return "Namespace " + ns.Name, nil
}

// retain labels what is retained of an environment: its own namespace, or each object in a shared one.
func (c *Controller) retain(ctx context.Context, env *v1alpha1.Environment, retained []applyset.Child) error {
	if hasNamespace(env) {
		ns, err := c.namespaceOf(ctx, env)
		if ns == nil || err != nil {
			return err
		}
		retained = []applyset.Child{{Object: ns}}
	}
	for i := range retained {
		o := retained[i].Object
		after := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of one
		after.GetLabels()[v1alpha1.RetainedLabel] = "true"
		if err := c.Client.Patch(ctx, after, client.MergeFrom(o), client.FieldOwner(FieldOwner)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("label %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// namespaceOf returns the namespace that was made for an environment, nil if it is gone or was not made for it.
func (c *Controller) namespaceOf(ctx context.Context, env *v1alpha1.Environment) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	err := c.Live.Get(ctx, client.ObjectKey{Name: env.Status.Namespace}, ns)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("namespace %s: %w", env.Status.Namespace, err)
	case !render.MadeFor(ns, env):
		return nil, nil
	}
	return ns, nil
}
