// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

// FieldOwner applies the objects of an environment and writes its status.
const FieldOwner = "berth-environments"

// defaultsOwner owns the replicas of a component from when its autoscaler sets them until it does.
const defaultsOwner = FieldOwner + "-defaults"

// set applies the objects of an environment. Nothing else is in a namespace of its own.
func (c *Controller) set(env *v1alpha1.Environment) *applyset.Set {
	return &applyset.Set{
		Client:        c.Client,
		Live:          c.Live,
		FieldOwner:    FieldOwner,
		DefaultsOwner: defaultsOwner,
		Owns:          func(o metav1.Object) bool { return render.MadeFor(o, env) },
		Exclusive:     hasNamespace(env),
		Explain:       c.explain,
	}
}

// apply makes the children of an environment what was rendered. A refused object leaves the others as they are.
func (c *Controller) apply(ctx context.Context, v *observation) error {
	plan := applyset.Diff(v.desired, v.children, v.fate)
	if len(plan.Apply) > 0 && hasNamespace(v.env) {
		if err := c.ensureNamespace(ctx, v.env); err != nil {
			return err
		}
	}
	if err := c.keepLabels(ctx, v.env); err != nil {
		return err
	}
	result, err := c.set(v.env).Reconcile(ctx, &plan)
	if err != nil {
		return err
	}
	if v.env.Spec.ForceStop && v.env.Spec.RunPolicy == v1alpha1.RunPolicyStopped {
		if err := c.killPods(ctx, v); err != nil {
			return err
		}
	}
	if len(result.Applied) > 0 || len(result.Pruned) > 0 {
		log.FromContext(ctx).Info("Applied what was rendered",
			"objects", applyset.Names(result.Applied), "deleted", applyset.Names(result.Pruned))
	}
	if result.Refused != nil {
		return applyset.Refuse(v1alpha1.ReasonRefused, result.Refused)
	}
	return nil
}

// explain classifies errors about an object. A new ResourceQuota has no usage for a moment, and the API server forbids pods until
// then. If HTTPRoutes cannot be created in this cluster as it is now, the rest of the environment is applied without them.
func (c *Controller) explain(o *unstructured.Unstructured, err error) error {
	switch forbidden := apierrors.IsForbidden(err); {
	case forbidden && strings.Contains(err.Error(), "status unknown for quota"):
		return errNotYet
	case err == nil || o.GroupVersionKind() != render.RouteKind:
		return err
	case unserved(err):
		return applyset.Refuse(v1alpha1.ReasonRefused, fmt.Errorf(
			"environments.gateway is %q, but the cluster serves no HTTPRoute of %s: the CRD %s is missing",
			c.Settings.Gateway, render.RouteKind.GroupVersion(), "httproutes."+render.RouteKind.Group,
		))
	case forbidden:
		return applyset.Refuse(v1alpha1.ReasonRefused, err)
	}
	return err
}

// fate decides about a child that is not desired. Data is retained, so that a component that is removed by mistake finds its
// volume again. What routes domains to the frontend is deleted once the other kind that does is applied.
func (v *observation) fate(child *applyset.Child) applyset.Fate {
	switch {
	case holdsData(child) && v.hasClaims() && !v.abandoned:
		return applyset.Retain
	case routes(child.Kind.Kind) && slices.ContainsFunc(v.desired, func(d *applyset.Desired) bool {
		return routes(d.GetKind()) && d.GetKind() != child.Kind.Kind
	}):
		return applyset.PruneReplaced
	}
	return applyset.Prune
}

const (
	claimKind  = "PersistentVolumeClaim"
	secretKind = "Secret"
)

// holdsData reports whether an object is a volume or what is needed to read it: a database keeps the password with which its
// volume was first used, and it is stored nowhere else.
func holdsData(child *applyset.Child) bool {
	return child.Kind.Kind == claimKind || child.Kind.Kind == secretKind && child.GetName() == stack.Database
}

// hasClaims reports whether there are volumes with data of components.
func (v *observation) hasClaims() bool {
	return slices.ContainsFunc(v.children, func(child applyset.Child) bool { return child.Kind.Kind == claimKind })
}

// killPods ends the remaining pods without a grace period.
func (c *Controller) killPods(ctx context.Context, v *observation) error {
	for i := range v.pods {
		p := &v.pods[i]
		if p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0 {
			continue
		}
		err := c.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}},
			client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete pod %s: %w", p.Name, err)
		}
	}
	return nil
}
