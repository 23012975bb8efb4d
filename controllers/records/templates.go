// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

// countEvery is how often a template's records are counted while they change.
const countEvery = 2 * time.Second

// templateController writes the status of DeploymentTemplates: whether they can be rendered, and how many records use them.
type templateController struct{ *Controller }

func addTemplates(mgr manager.Manager, c *Controller) error {
	t := templateController{c}
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).Named("deploymenttemplate").
		For(&v1alpha1.DeploymentTemplate{}, changed).
		// Records that are created, deleted or rendered with another template.
		Watches(&v1alpha1.DeploymentRecord{}, applyset.Delayed(handler.EnqueueRequestsFromMapFunc(t.ofRecord), countEvery),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				return templateOf(e.ObjectOld) != templateOf(e.ObjectNew)
			}})).
		// A template hides the one of the same name in TemplateNamespace.
		Watches(&v1alpha1.DeploymentTemplate{},
			handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: t.TemplateNamespace, Name: o.GetName()}}}
			}), changed).
		Complete(t)
	if err != nil {
		return fmt.Errorf("add the controller of DeploymentTemplates: %w", err)
	}
	return nil
}

// ofRecord returns the templates that a record may be rendered with: of its own namespace, and of TemplateNamespace.
func (t templateController) ofRecord(_ context.Context, o client.Object) (requests []reconcile.Request) {
	name := templateOf(o)
	if name == "" {
		return nil
	}
	for _, namespace := range slices.Compact([]string{o.GetNamespace(), t.TemplateNamespace}) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return requests
}

func templateOf(record client.Object) string {
	return record.(*v1alpha1.DeploymentRecord).Status.Template
}

// Reconcile implements reconcile.Reconciler.
func (t templateController) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	template := &v1alpha1.DeploymentTemplate{}
	if err := t.Client.Get(ctx, req.NamespacedName, template); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if template.DeletionTimestamp != nil || !t.usable(template.Namespace) {
		return reconcile.Result{}, nil
	}
	n, err := t.count(ctx, template)
	if err != nil {
		return reconcile.Result{}, err
	}
	status := ofTemplate(template, render.CheckTemplate(template, t.Settings), n, t.Clock.Now())
	if equality.Semantic.DeepEqual(template.Status, status) {
		return reconcile.Result{}, nil
	}
	kind := v1alpha1.SchemeGroupVersion.WithKind("DeploymentTemplate")
	version, err := applyset.Status(ctx, t.Client, kind, template, &status, FieldOwner)
	if version == "" {
		return reconcile.Result{}, err
	}
	statusWrites.Inc()
	before := meta.FindStatusCondition(template.Status.Conditions, v1alpha1.ConditionAccepted)
	now := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAccepted)
	if now.Status == metav1.ConditionFalse && (before == nil || before.Message != now.Message) {
		t.Recorder.Event(template, corev1.EventTypeWarning, v1alpha1.EventReasonInvalidTemplate, now.Message)
	}
	return reconcile.Result{}, nil
}

// usable reports whether records that this controller reconciles can be rendered with the templates of a namespace.
func (t templateController) usable(namespace string) bool {
	return namespace == t.TemplateNamespace || t.reconciles(namespace)
}

// count counts the records that are rendered with a template.
func (t templateController) count(ctx context.Context, template *v1alpha1.DeploymentTemplate) (n int32, err error) {
	var records v1alpha1.DeploymentRecordList
	var others v1alpha1.DeploymentTemplateList
	var where []client.ListOption
	if template.Namespace != t.TemplateNamespace {
		where = append(where, client.InNamespace(template.Namespace))
	}
	if err := t.Client.List(ctx, &records, append(where, client.UnsafeDisableDeepCopy)...); err != nil {
		return 0, fmt.Errorf("list DeploymentRecords: %w", err)
	}
	if err := t.Client.List(ctx, &others, append(where, client.UnsafeDisableDeepCopy)...); err != nil {
		return 0, fmt.Errorf("list DeploymentTemplates: %w", err)
	}
	hidden := map[string]bool{} // by one of the same name in the record's own namespace
	for i := range others.Items {
		o := &others.Items[i]
		hidden[o.Namespace] = hidden[o.Namespace] || o.Name == template.Name && o.Namespace != template.Namespace
	}
	for i := range records.Items {
		if rec := &records.Items[i]; rec.Status.Template == template.Name && !hidden[rec.Namespace] && t.reconciles(rec.Namespace) {
			n++
		}
	}
	return n, nil
}

// ofTemplate composes the status of a template. It is a pure function.
func ofTemplate(template *v1alpha1.DeploymentTemplate, invalid error, records int32, now time.Time) v1alpha1.DeploymentTemplateStatus {
	s := v1alpha1.DeploymentTemplateStatus{
		ObservedGeneration: template.Generation, RecordCount: records, Conditions: slices.Clone(template.Status.Conditions),
	}
	c := condition(v1alpha1.ConditionAccepted, true, v1alpha1.ReasonAccepted, "it can be rendered")
	if invalid != nil {
		c = condition(v1alpha1.ConditionAccepted, false, v1alpha1.ReasonInvalidTemplate, invalid.Error())
	}
	setCondition(&s.Conditions, c, template.Generation, now)
	return s
}
