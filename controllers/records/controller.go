// SPDX-License-Identifier: Apache-2.0

// Package records renders DeploymentRecords with DeploymentTemplates,
// keeps what was rendered in the cluster, and says in the status how it stands.
// What is rendered is decided in internal/records/render.
package records

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

const (
	// FieldOwner is who applies the objects of a record and writes its status.
	FieldOwner = "berth-deployments"
	// resync is how often a record is looked at although nothing changed.
	resync = 10 * time.Minute
	// again is when a record is looked at next that could not be rendered: a template or an API may come.
	again = 30 * time.Second
	// notYet is when a record is looked at again that the cache has not seen as it is, or of which it is not known what there
	// is around it.
	notYet = 200 * time.Millisecond
	// leaving is how long children have to go before the record goes without them; they are collected as garbage then.
	leaving = time.Minute
)

var recordKind = v1alpha1.SchemeGroupVersion.WithKind("DeploymentRecord")

// Options configure the controller.
type Options struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client   client.Client
	Live     client.Reader
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	// Settings and Environment are what is rendered with; Environment.Served is the controller's.
	Settings    render.Settings
	Environment render.Environment
	Features    render.Features
	// TemplateNamespace has the templates for records of all namespaces.
	TemplateNamespace string
	// Namespaces are the only ones whose records are reconciled; empty means all.
	Namespaces []string
}

// Reconciler reconciles one record per request.
type Reconciler struct {
	Options
	around *surroundings
	proven proven
}

var _ reconcile.Reconciler = &Reconciler{}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	rec := &v1alpha1.DeploymentRecord{}
	if err := r.Client.Get(ctx, req.NamespacedName, rec); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.around.settled() {
		return reconcile.Result{RequeueAfter: notYet}, nil
	}
	if id := rec.Annotations[v1alpha1.CorrelationIDAnnotation]; id != "" {
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("correlationID", id))
	}
	if rec.DeletionTimestamp != nil {
		return r.remove(ctx, rec)
	}
	if !r.mine(rec.Namespace) {
		return reconcile.Result{}, nil
	}
	if stale, err := r.guard(ctx, rec); stale || err != nil {
		return onceMore(stale), err
	}
	return r.deploy(ctx, rec)
}

// mine reports whether the records of a namespace are reconciled here.
func (r *Reconciler) mine(namespace string) bool {
	return len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, namespace)
}

// onceMore requests a record that was stale.
func onceMore(stale bool) reconcile.Result {
	if !stale {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: notYet}
}

// deploy has the cluster have what a record requests, and says how it stands.
func (r *Reconciler) deploy(ctx context.Context, rec *v1alpha1.DeploymentRecord) (reconcile.Result, error) {
	rendered, template, err := r.render(ctx, rec)
	var notes []note
	var children []child
	if err == nil {
		children, notes, err = r.bring(ctx, rec, rendered, template)
	}
	if refused := refusal(err); refused != nil {
		return r.refuse(ctx, rec, nameOf(template), refused)
	}
	if errors.Is(err, errNotYet) {
		return reconcile.Result{RequeueAfter: notYet}, nil
	}
	if errors.Is(err, applyset.ErrNamespaceEnds) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.report(ctx, rec, view{template: nameOf(template), rendered: rendered, children: children}, notes)
}

func nameOf(t *v1alpha1.DeploymentTemplate) string {
	if t == nil {
		return ""
	}
	return t.Name
}

// refuse says why a record cannot be deployed as configured. What was deployed of it before stays as it is; of one that never
// was, nothing stays.
func (r *Reconciler) refuse(ctx context.Context, rec *v1alpha1.DeploymentRecord, template string, refused *render.Error) (reconcile.Result, error) {
	children, err := r.children(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !wasDeployed(rec) {
		for i := range children {
			if err := applyset.Delete(ctx, r.Client, children[i].Object); err != nil {
				return reconcile.Result{}, err
			}
		}
		children = nil
	}
	return r.report(ctx, rec, view{template: template, children: children, refused: refused}, nil)
}

// note is an event that is recorded once the status is written.
type note struct{ reason, message string }

// render returns what the record requests, and its template.
func (r *Reconciler) render(ctx context.Context, rec *v1alpha1.DeploymentRecord) (*render.Rendered, *v1alpha1.DeploymentTemplate, error) {
	templates, err := r.templates(ctx, rec.Namespace)
	if err != nil {
		return nil, nil, err
	}
	choice, err := render.ChooseTemplate(&rec.Spec, templates, r.place())
	if err != nil {
		return nil, nil, err
	}
	if choice.UnknownHint != "" {
		log.FromContext(ctx).Info("No template has the name that the record requests, so one was chosen", "hint", choice.UnknownHint, "template", choice.Template.Name)
	}
	rendered, err := render.Render(rec, choice.Template, r.Settings)
	if err == nil {
		err = r.possible(rendered)
	}
	return rendered, choice.Template, err
}

// errNotYet says that what is rendered could not be found again yet.
var errNotYet = errors.New("the cache does not have this kind yet")

// possible refuses what the API server does not serve. A template need not say that it requires it.
func (r *Reconciler) possible(rendered *render.Rendered) error {
	for _, o := range rendered.Objects {
		if o.GroupVersionKind().Group != knativeGroup {
			continue
		}
		if !r.around.served(knativeGroup) {
			return &render.Error{Reason: v1alpha1.ReasonRefused, Err: fmt.Errorf("the API server does not serve %s of %s", o.GetKind(), o.GetAPIVersion())}
		}
		if !r.around.watched() {
			return errNotYet
		}
	}
	return nil
}

func (r *Reconciler) place() render.Environment {
	e := r.Environment
	e.Served = func(group string) bool {
		return (group != knativeGroup || r.Features.Knative) && r.around.served(group)
	}
	return e
}

// templates are those of a namespace, and of the templates' own those that have no namesake there.
func (r *Reconciler) templates(ctx context.Context, namespace string) (list []*v1alpha1.DeploymentTemplate, err error) {
	seen := map[string]bool{}
	for _, ns := range []string{namespace, r.TemplateNamespace} {
		var some v1alpha1.DeploymentTemplateList
		if err := r.Client.List(ctx, &some, client.InNamespace(ns), client.UnsafeDisableDeepCopy); err != nil {
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

// guard puts the finalizer on a record before anything is made for it.
func (r *Reconciler) guard(ctx context.Context, rec *v1alpha1.DeploymentRecord) (stale bool, err error) {
	if controllerutil.ContainsFinalizer(rec, v1alpha1.RecordFinalizer) {
		return false, nil
	}
	return r.setFinalizer(ctx, rec, controllerutil.AddFinalizer)
}

// setFinalizer puts the finalizer on a record, or takes it off, unless the record is another one by now. It is stale then, and
// has to be looked at again: that others have written its status wakes no one.
func (r *Reconciler) setFinalizer(ctx context.Context, rec *v1alpha1.DeploymentRecord, set func(client.Object, string) bool) (stale bool, err error) {
	before := rec.DeepCopy()
	set(rec, v1alpha1.RecordFinalizer)
	return applyset.Finalizers(ctx, r.Client, before, rec)
}

// remove deletes the children of a record, and lets it go once they are gone, or
// after a while without them: they are its dependents, and go with it.
func (r *Reconciler) remove(ctx context.Context, rec *v1alpha1.DeploymentRecord) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(rec, v1alpha1.RecordFinalizer) {
		return reconcile.Result{}, nil
	}
	children, err := r.children(ctx, rec)
	if err != nil {
		return reconcile.Result{}, err
	}
	var failed []error
	for i := range children {
		failed = append(failed, applyset.Delete(ctx, r.Client, children[i].Object))
	}
	late := r.Clock.Since(rec.DeletionTimestamp.Time) > leaving
	if len(children) > 0 && !late {
		if _, err := r.report(ctx, rec, view{template: rec.Status.Template, children: children}, nil); err != nil {
			failed = append(failed, err)
		}
		if err := errors.Join(failed...); err != nil {
			return reconcile.Result{}, err
		}
		// Their end brings the record here again; should it be missed, the time does.
		return reconcile.Result{RequeueAfter: leaving / 10}, nil
	}
	if late && len(children) > 0 {
		r.say(rec, corev1.EventTypeWarning, v1alpha1.EventReasonOrphanedResources, "deleted although %d of its objects are still there: %s", len(children), names(children))
	}
	r.proven.forget(rec)
	stale, err := r.setFinalizer(ctx, rec, controllerutil.RemoveFinalizer)
	return onceMore(stale), err
}

// refusal says why a record cannot be deployed as configured, nil if that is not what an error says.
func refusal(err error) *render.Error {
	if refused, ok := errors.AsType[*render.Error](err); ok {
		return refused
	}
	if none, ok := errors.AsType[*render.NoTemplateError](err); ok {
		return &render.Error{Reason: v1alpha1.ReasonNoTemplate, Err: none}
	}
	return nil
}
