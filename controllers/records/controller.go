// SPDX-License-Identifier: Apache-2.0

// Package records renders DeploymentRecords with DeploymentTemplates, applies what was rendered, and writes the status of both.
// internal/records/render decides what is rendered.
package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

const (
	// resyncInterval is how often a record is reconciled although nothing changed.
	resyncInterval = 10 * time.Minute
	// refusedInterval is how often a refused record is reconciled: a template or an API may be added.
	refusedInterval = 30 * time.Second
	// cacheDelay is how long a record waits for the cache or for the discovery of the API groups.
	cacheDelay = 200 * time.Millisecond
	// deletionTimeout is how long a record waits for its children to go. The garbage collector deletes them after that.
	deletionTimeout = time.Minute
)

var recordKind = v1alpha1.SchemeGroupVersion.WithKind("DeploymentRecord")

// errNotWatched means that the cache does not have a kind yet that was rendered.
var errNotWatched = errors.New("the cache does not have this kind yet")

// Reconcile implements reconcile.Reconciler.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rec := &v1alpha1.DeploymentRecord{}
	if err := c.Client.Get(ctx, req.NamespacedName, rec); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !c.capabilities.complete() {
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	}
	if id := rec.Annotations[v1alpha1.CorrelationIDAnnotation]; id != "" {
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("correlationID", id))
	}
	switch {
	case rec.DeletionTimestamp != nil:
		return c.remove(ctx, rec)
	case !c.reconciles(rec.Namespace):
		return reconcile.Result{}, nil
	case !controllerutil.ContainsFinalizer(rec, v1alpha1.RecordFinalizer): // before its first child
		// A stale record has to be requeued, because a change of its status by others does not.
		stale, err := applyset.SetFinalizer(ctx, c.Client, rec, v1alpha1.RecordFinalizer, controllerutil.AddFinalizer)
		if stale || err != nil {
			return requeueIf(stale), err
		}
	}
	return c.deploy(ctx, rec)
}

// reconciles reports whether the records of a namespace are reconciled here.
func (c *Controller) reconciles(namespace string) bool {
	return len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, namespace)
}

func requeueIf(stale bool) reconcile.Result {
	if !stale {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: cacheDelay}
}

// deploy renders a record, applies what was rendered, and writes the status.
func (c *Controller) deploy(ctx context.Context, rec *v1alpha1.DeploymentRecord) (reconcile.Result, error) {
	rendered, choice, err := c.render(ctx, rec)
	var applied applyset.Result
	if err == nil {
		applied, err = c.apply(ctx, rec, rendered, choice.Template)
	}
	observed := observation{rendered: rendered, children: applied.Children, instead: choice.Instead}
	if choice.Template != nil {
		observed.template = choice.Template.Name
	}
	switch observed.refused = refusal(err); {
	case observed.refused != nil:
		return c.refuse(ctx, rec, observed)
	case errors.Is(err, errNotWatched):
		return reconcile.Result{RequeueAfter: cacheDelay}, nil
	case errors.Is(err, applyset.ErrNamespaceEnds):
		return reconcile.Result{RequeueAfter: refusedInterval}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return c.report(ctx, rec, observed, notesOf(ctx, &applied))
}

// refuse reports why a record cannot be deployed as configured. What was deployed of it before stays as it is; the children of
// one that never was are deleted.
func (c *Controller) refuse(ctx context.Context, rec *v1alpha1.DeploymentRecord, observed observation) (reconcile.Result, error) {
	children, err := c.children(ctx, rec)
	if err == nil && !wasDeployed(rec) {
		err = applyset.DeleteAll(ctx, c.Client, children)
		children = nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	observed.rendered, observed.children = nil, children
	return c.report(ctx, rec, observed, nil)
}

// render returns what a record requires, and how its template was chosen.
func (c *Controller) render(ctx context.Context, rec *v1alpha1.DeploymentRecord) (*render.Rendered, render.Choice, error) {
	templates, err := c.templates(ctx, rec.Namespace)
	if err != nil {
		return nil, render.Choice{}, err
	}
	environment := c.Environment
	environment.Missing = c.missing
	choice, err := render.ChooseTemplate(&rec.Spec, templates, environment)
	if err != nil {
		return nil, choice, err
	}
	rendered, err := render.Render(rec, choice.Template, c.Settings)
	if err == nil {
		err = c.checkServed(rendered)
	}
	return rendered, choice, err
}

// missing returns why an API group cannot be used, "" if it can.
func (c *Controller) missing(group string) string {
	off := group == knativeGroup && !c.Features.Knative
	switch served := c.capabilities.served(group); {
	case off && !served:
		return "which the API server does not serve, and records.features.knative is off"
	case off:
		return "and records.features.knative is off"
	case !served:
		return "which the API server does not serve"
	}
	return ""
}

// checkServed refuses Knative Services that the API server does not serve. A template need not list the group as required.
func (c *Controller) checkServed(rendered *render.Rendered) error {
	for _, o := range rendered.Objects {
		switch {
		case o.GroupVersionKind().Group != knativeGroup:
		case !c.capabilities.served(knativeGroup):
			return &render.Error{
				Reason: v1alpha1.ReasonRefused,
				Err:    fmt.Errorf("the API server does not serve %s of %s", o.GetKind(), o.GetAPIVersion()),
			}
		case !c.capabilities.watched.Load():
			return errNotWatched
		}
	}
	return nil
}

// templates returns the templates of a namespace, and those of TemplateNamespace that no template there has the name of.
func (c *Controller) templates(ctx context.Context, namespace string) (list []*v1alpha1.DeploymentTemplate, err error) {
	seen := map[string]bool{}
	for _, ns := range []string{namespace, c.TemplateNamespace} {
		var some v1alpha1.DeploymentTemplateList
		if err := c.Client.List(ctx, &some, client.InNamespace(ns), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list the DeploymentTemplates of %s: %w", ns, err)
		}
		for i := range some.Items {
			if t := &some.Items[i]; !seen[t.Name] {
				seen[t.Name] = true
				list = append(list, t)
			}
		}
	}
	return list, nil
}

// remove deletes the children of a record, and removes its finalizer once they are gone or deletionTimeout is over.
func (c *Controller) remove(ctx context.Context, rec *v1alpha1.DeploymentRecord) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(rec, v1alpha1.RecordFinalizer) {
		return reconcile.Result{}, nil
	}
	children, err := c.children(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	failed := applyset.DeleteAll(ctx, c.Client, children)
	late := c.Clock.Since(rec.DeletionTimestamp.Time) > deletionTimeout
	if len(children) > 0 && !late {
		_, err := c.report(ctx, rec, observation{template: rec.Status.Template, children: children}, nil)
		if err := errors.Join(failed, err); err != nil {
			return reconcile.Result{}, err
		}
		// The deletion of the last child requeues the record; the delay is for an event that is missed.
		return reconcile.Result{RequeueAfter: deletionTimeout / 10}, nil
	}
	if len(children) > 0 {
		c.event(rec, corev1.EventTypeWarning, v1alpha1.EventReasonOrphanedResources,
			"deleted although %d of its objects are still there: %s", len(children), applyset.Names(children))
	}
	c.proven.forget(rec)
	stale, err := applyset.SetFinalizer(ctx, c.Client, rec, v1alpha1.RecordFinalizer, controllerutil.RemoveFinalizer)
	return requeueIf(stale), err
}

// refusal returns why a record cannot be deployed as configured, nil for any other error.
func refusal(err error) *render.Error {
	if refused, ok := errors.AsType[*render.Error](err); ok {
		return refused
	}
	if refused, ok := errors.AsType[*applyset.RefusedError](err); ok {
		return &render.Error{Reason: refused.Reason, Err: refused}
	}
	return nil
}
