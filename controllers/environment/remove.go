// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/apply"
	"berth.dev/berth/internal/environment"
)

// remove deletes what was made for an environment, and lets it go once it is gone.
func (r *Reconciler) remove(ctx context.Context, env *v1alpha1.Environment) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(env, v1alpha1.EnvironmentFinalizer) {
		return reconcile.Result{}, nil
	}
	env = env.DeepCopy()
	l := &look{env: env, components: environment.Components(&env.Spec.Stack)}
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
	l.situation = environment.Situation{Environment: env, Components: l.components, Observed: map[string]environment.Observed{}}
	if _, err := r.report(ctx, l, &refusal{v1alpha1.EventReasonChildrenLeft, fmt.Errorf("waits for %s to be gone", left)}); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: leaving}, nil
}

// removeAll deletes what is there, and says what is left of it, "" for nothing.
func (r *Reconciler) removeAll(ctx context.Context, l *look) (left string, err error) {
	if own(l.env) && l.env.Spec.VolumeRetention != v1alpha1.VolumeRetentionRetain {
		return r.removeNamespace(ctx, l.env)
	}
	left, claims, err := r.removeObjects(ctx, l)
	switch {
	case err != nil:
		return "", err
	case left != "" || !own(l.env):
		return left, nil
	case claims > 0:
		return "", r.keepNamespace(ctx, l.env)
	}
	return r.removeNamespace(ctx, l.env)
}

// removeObjects deletes one by one what was made for an environment, but for the claims that are retained, and says what is left.
func (r *Reconciler) removeObjects(ctx context.Context, l *look) (left string, claims int, err error) {
	if err := r.observe(ctx, l); err != nil {
		return "", 0, err
	}
	for i := range l.there {
		c := &l.there[i]
		if c.kind == claimKind && l.env.Spec.VolumeRetention == v1alpha1.VolumeRetentionRetain {
			claims++
			continue
		}
		if err := apply.Delete(ctx, r.Client, c.Object); err != nil {
			return "", 0, err
		}
		left = c.kind + " " + c.GetName()
	}
	if left == "" && len(l.pods) > 0 {
		left = "Pod " + l.pods[0].Name
	}
	return left, claims, r.removeSecrets(ctx, l)
}

// removeSecrets deletes the Secrets of the components, which cannot be listed.
func (r *Reconciler) removeSecrets(ctx context.Context, l *look) error {
	for _, c := range l.components {
		s := &corev1.Secret{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: l.env.Status.Namespace, Name: c.Name}, s)
		if err == nil && s.Labels[v1alpha1.EnvironmentLabel] == l.env.Name {
			err = apply.Delete(ctx, r.Client, s)
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Secret %s: %w", c.Name, err)
		}
	}
	return nil
}

// removeNamespace deletes the namespace that was made for an environment, with all that is in it.
func (r *Reconciler) removeNamespace(ctx context.Context, env *v1alpha1.Environment) (left string, err error) {
	ns, err := r.namespaceOf(ctx, env)
	if ns == nil || err != nil {
		return "", err
	}
	if err := apply.Delete(ctx, r.Client, ns); err != nil {
		return "", err
	}
	return "Namespace " + ns.Name, nil
}

// keepNamespace says on the namespace of an environment why it stays.
func (r *Reconciler) keepNamespace(ctx context.Context, env *v1alpha1.Environment) error {
	ns, err := r.namespaceOf(ctx, env)
	if ns == nil || err != nil {
		return err
	}
	before := ns.DeepCopy()
	ns.Labels[v1alpha1.RetainedLabel] = "true"
	if err := r.Client.Patch(ctx, ns, client.MergeFrom(before), client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("label namespace %s: %w", ns.Name, err)
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
	case ns.Labels[v1alpha1.EnvironmentLabel] != env.Name || ns.Labels[v1alpha1.EnvironmentNamespaceLabel] != env.Namespace:
		return nil, nil
	}
	return ns, nil
}
