// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
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
	"berth.dev/berth/internal/kube/applyset"
)

// remove deletes what was made for an environment, and lets it go once it is gone.
func (r *Reconciler) remove(ctx context.Context, env *v1alpha1.Environment) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(env, v1alpha1.EnvironmentFinalizer) {
		return reconcile.Result{}, nil
	}
	before := env
	env = env.DeepCopy()
	l := &look{env: env, components: render.Components(&env.Spec.Stack)}
	if env.Status.Namespace == "" { // nothing was made yet
		return r.setFinalizer(ctx, env, controllerutil.RemoveFinalizer)
	}
	left, err := r.removeAll(ctx, l)
	if err != nil {
		return reconcile.Result{}, err
	}
	if left == "" {
		r.forgetPorts(client.ObjectKeyFromObject(env))
		return r.setFinalizer(ctx, env, controllerutil.RemoveFinalizer)
	}
	l.situation = render.Situation{Environment: env, Components: l.components, Observed: map[string]render.Observed{}}
	if _, err := r.report(ctx, before, l, &refusal{v1alpha1.EventReasonOrphanedResources, fmt.Errorf("waits for %s to be gone", left)}); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: leaving}, nil
}

// removeAll deletes what is there, and says what is left of it, "" for nothing.
func (r *Reconciler) removeAll(ctx context.Context, l *look) (left string, err error) {
	left, kept, err := r.removeObjects(ctx, l)
	switch {
	case err != nil:
		return "", err
	case left != "":
		return left, nil
	case len(kept) > 0:
		return "", r.retain(ctx, l.env, kept)
	case !own(l.env):
		return "", nil
	}
	return r.removeNamespace(ctx, l.env)
}

// removeObjects deletes what was made for an environment, but for what is retained, and says what is left. What runs pods goes
// first, and they: what keeps others away from them lasts as long as they do. A namespace that is deleted with all that is in it stays
// longer: its controller evaluates again after half of the pods' grace period, and after seconds where something has a finalizer.
func (r *Reconciler) removeObjects(ctx context.Context, l *look) (left string, kept []client.Object, err error) {
	if err := r.observe(ctx, l); err != nil {
		return "", nil, err
	}
	left, err = r.removeEach(ctx, l, (*child).runsPods)
	if left == "" && len(l.pods) > 0 {
		left = "Pod " + l.pods[0].Name
	}
	if left != "" || err != nil {
		return left, nil, err
	}
	retain := l.env.Spec.VolumeRetention == v1alpha1.VolumeRetentionRetain && l.hasClaims()
	left, err = r.removeEach(ctx, l, func(c *child) bool {
		if retain && c.holdsData() {
			kept = append(kept, c.Object)
			return false
		}
		return true
	})
	return left, kept, err
}

// removeEach deletes the objects that are there and match, and says which is left.
func (r *Reconciler) removeEach(ctx context.Context, l *look, match func(*child) bool) (left string, err error) {
	for i := range l.there {
		c := &l.there[i]
		if !match(c) {
			continue
		}
		if err := applyset.Delete(ctx, r.Client, c.Object); err != nil {
			return "", err
		}
		left = c.kind + " " + c.GetName()
	}
	return left, nil
}

// hasClaims reports whether there are volumes that hold what components have written.
func (l *look) hasClaims() bool {
	return slices.ContainsFunc(l.there, func(c child) bool { return c.kind == claimKind })
}

// holdsData reports whether an object is a volume or what is needed to read it: a database keeps the password with which its
// volume was first used, and no other user may know it.
func (c *child) holdsData() bool {
	return c.kind == claimKind || c.kind == secretKind && c.GetName() == render.Database
}

// runsPods reports whether an object is what a component runs as.
func (c *child) runsPods() bool {
	switch c.Object.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *batchv1.Job:
		return true
	}
	return false
}

// removeNamespace deletes the namespace that was made for an environment, with all that is in it.
func (r *Reconciler) removeNamespace(ctx context.Context, env *v1alpha1.Environment) (left string, err error) {
	ns, err := r.namespaceOf(ctx, env)
	if ns == nil || err != nil {
		return "", err
	}
	if err := applyset.Delete(ctx, r.Client, ns); err != nil {
		return "", err
	}
	return "Namespace " + ns.Name, nil
}

// retain says on what is retained of an environment why it is there: on its own namespace, or on each object in a shared one.
func (r *Reconciler) retain(ctx context.Context, env *v1alpha1.Environment, kept []client.Object) error {
	if own(env) {
		ns, err := r.namespaceOf(ctx, env)
		if ns == nil || err != nil {
			return err
		}
		kept = []client.Object{ns}
	}
	for _, o := range kept {
		after := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of one
		after.GetLabels()[v1alpha1.RetainedLabel] = "true"
		if err := r.Client.Patch(ctx, after, client.MergeFrom(o), client.FieldOwner(FieldOwner)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("label %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// namespaceOf is the namespace that was made for an environment, nil if it is gone or another's.
func (r *Reconciler) namespaceOf(ctx context.Context, env *v1alpha1.Environment) (*corev1.Namespace, error) {
	ns := &corev1.Namespace{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: env.Status.Namespace}, ns)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("namespace %s: %w", env.Status.Namespace, err)
	case !madeFor(ns, env):
		return nil, nil
	}
	return ns, nil
}
