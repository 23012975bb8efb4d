// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/records/render"
)

const (
	maxMessage = 1024
	maxRefs    = 512
)

// observation is the state of a record in the cluster.
type observation struct {
	template string
	// instead is why it is not the one that the record requested, "" if it is.
	instead string
	// rendered is nil if the record is refused or being deleted.
	rendered *render.Rendered
	children []applyset.Child
	refused  *render.Error
}

// note is an event that is recorded once the status is written.
type note struct{ reason, message string }

// report writes the status of a record if it has changed, and records the notes as events.
func (c *Controller) report(ctx context.Context, rec *v1alpha1.DeploymentRecord, v observation, notes []note) (reconcile.Result, error) {
	status := compose(rec, v, c.Clock.Now())
	result := reconcile.Result{RequeueAfter: resyncInterval}
	if v.refused != nil {
		result.RequeueAfter = refusedInterval
	}
	if !sameStatus(&rec.Status, &status) {
		if written, err := c.writeStatus(ctx, rec, &status, FieldOwner); !written {
			return reconcile.Result{}, err
		}
		notes = append(notes, fallback(&rec.Status, &status)...)
		notes = append(notes, transitions(&rec.Status, &status)...)
	}
	for _, n := range notes {
		kind := corev1.EventTypeNormal
		if n.reason == v1alpha1.EventReasonDegraded || n.reason == v1alpha1.EventReasonTemplateFallback {
			kind = corev1.EventTypeWarning
		}
		c.event(rec, kind, n.reason, "%s", n.message)
	}
	return result, nil
}

// event records an event of a record, with the correlation id of the call that last wrote it.
func (c *Controller) event(rec *v1alpha1.DeploymentRecord, kind, reason, format string, args ...any) {
	var annotations map[string]string
	if id := rec.Annotations[v1alpha1.CorrelationIDAnnotation]; id != "" {
		annotations = map[string]string{v1alpha1.CorrelationIDAnnotation: id}
	}
	c.Recorder.AnnotatedEventf(rec, annotations, kind, reason, format, args...)
}

// writeStatus applies a part of a record's status. If the record is gone, it is not written and there is no error.
func (c *Controller) writeStatus(
	ctx context.Context, rec *v1alpha1.DeploymentRecord, status *v1alpha1.DeploymentRecordStatus, owner client.FieldOwner,
) (written bool, err error) {
	version, err := applyset.Status(ctx, c.Client, recordKind, rec, status, owner)
	if version != "" {
		statusWrites.Inc()
	}
	return version != "", err
}

// transitions are the events of a change of phase.
func transitions(before, after *v1alpha1.DeploymentRecordStatus) []note {
	degraded := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionDegraded)
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionDegraded)
	switch {
	case degraded != nil && degraded.Status == metav1.ConditionTrue:
		if was != nil && was.Status == degraded.Status && was.Reason == degraded.Reason && was.Message == degraded.Message {
			return nil
		}
		return []note{{v1alpha1.EventReasonDegraded, degraded.Reason + ": " + degraded.Message}}
	case before.Phase != after.Phase && after.Phase == v1alpha1.PhaseAvailable:
		return []note{{v1alpha1.EventReasonAvailable, after.Message}}
	case before.Phase != after.Phase && after.Phase == v1alpha1.PhaseProgressing:
		return []note{{v1alpha1.EventReasonProgressing, after.Message}}
	}
	return nil
}

// compose returns the part of a record's status that the reconciler writes; the analyzer writes the rest. It is a pure function:
// the same state gives the same status.
func compose(rec *v1alpha1.DeploymentRecord, v observation, now time.Time) v1alpha1.DeploymentRecordStatus {
	s := v1alpha1.DeploymentRecordStatus{
		ObservedGeneration: rec.Generation, Template: v.template, Conditions: reconciled(rec.Status.Conditions),
	}
	if v.rendered != nil {
		s.Functions, s.ODGM, s.Addons = functions(rec, v, now), odgm(v), addons(v)
	} else { // what is known stays, such as the names of functions
		s.Functions, s.ODGM, s.Addons = rec.Status.Functions, rec.Status.ODGM, rec.Status.Addons
		s.Template = cmp.Or(s.Template, rec.Status.Template)
	}
	s.ResourceRefs = refs(v.children)
	var conditions []metav1.Condition
	s.Phase, s.Message, conditions = phase(&v, len(s.Functions), waitingFor(&s))
	if rec.DeletionTimestamp != nil {
		s.Phase, s.Message = v1alpha1.PhaseDeleting, display.Clause(len(v.children), "object", "is", "are")+" still there"
	}
	s.Message = applyset.Shorten(s.Message, maxMessage)
	switch {
	case rec.Spec.TemplateHint == "":
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionTemplateAsRequested)
	case v.template != "" && rec.DeletionTimestamp == nil:
		conditions = append(conditions, asRequested(&v))
	}
	for _, c := range conditions {
		setCondition(&s.Conditions, c, rec.Generation, now)
	}
	return s
}

// asRequested returns the condition that reports whether a record has the template that it requests.
func asRequested(v *observation) metav1.Condition {
	if v.instead == "" {
		return condition(v1alpha1.ConditionTemplateAsRequested, true, v1alpha1.ReasonAsRequested, "template "+v.template+" is used")
	}
	message := fmt.Sprintf("%s; template %s is used instead", v.instead, v.template)
	return condition(v1alpha1.ConditionTemplateAsRequested, false, v1alpha1.ReasonTemplateUnusable, message)
}

// fallback is the event of a record that has another template than it requests, for another reason than before.
func fallback(before, after *v1alpha1.DeploymentRecordStatus) []note {
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionTemplateAsRequested)
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionTemplateAsRequested)
	if is == nil || is.Status == metav1.ConditionTrue || was != nil && was.Status == is.Status && was.Message == is.Message {
		return nil
	}
	return []note{{v1alpha1.EventReasonTemplateFallback, is.Message}}
}

// reconciled returns the conditions without those of the analyzer.
func reconciled(conditions []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(conditions), isMeasured)
}

func condition(kind string, holds bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: applyset.Shorten(message, maxMessage)}
	if holds {
		c.Status = metav1.ConditionTrue
	}
	return c
}

func setCondition(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	c.ObservedGeneration, c.LastTransitionTime = generation, metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(conditions, c)
}

// phase returns the phase of a record with its message, and the conditions. Waiting is what is not ready, "" if all is.
func phase(v *observation, functions int, waiting string) (v1alpha1.DeploymentPhase, string, []metav1.Condition) {
	ready := display.Clause(functions, "function", "answers", "answer")
	available := condition(v1alpha1.ConditionAvailable, true, v1alpha1.ReasonAllReady, ready)
	if waiting != "" {
		available = condition(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonNotReady, waiting)
	}
	if v.refused != nil {
		reason, why := v.refused.Reason, v.refused.Error()
		if len(v.children) == 0 {
			available = condition(v1alpha1.ConditionAvailable, false, reason, "nothing is deployed")
		}
		return v1alpha1.PhaseDegraded, why, []metav1.Condition{
			available,
			condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonDegraded, "it cannot be deployed as configured"),
			condition(v1alpha1.ConditionDegraded, true, reason, why),
		}
	}
	configured := condition(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonConfigured, "deployed as configured")
	if waiting != "" {
		progressing := condition(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonWaiting, waiting)
		return v1alpha1.PhaseProgressing, waiting, []metav1.Condition{available, progressing, configured}
	}
	settled := condition(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonSettled, "nothing is being changed")
	return v1alpha1.PhaseAvailable, "Available", []metav1.Condition{available, settled, configured}
}

// functions returns the status of each function.
func functions(rec *v1alpha1.DeploymentRecord, v observation, now time.Time) []v1alpha1.FunctionStatus {
	list := make([]v1alpha1.FunctionStatus, len(v.rendered.Functions))
	for i := range list {
		f := &v.rendered.Functions[i]
		s := &list[i]
		*s = v1alpha1.FunctionStatus{FunctionKey: f.Spec.FunctionKey, Service: f.Name, URL: f.URL}
		if f.Name == "" {
			s.Ready, s.Reason = v.odgmReady(), v1alpha1.ReasonRunsInODGM
		} else {
			s.Port, s.Metrics = 80, f.Metrics
			w := v.workload(f.Name)
			s.Replicas, s.ReadyReplicas = w.desired, w.ready
			s.Ready, s.Reason, s.Message = w.ok, w.reason, applyset.Shorten(w.message, maxMessage)
		}
		s.LastTransitionTime = new(metav1.NewTime(now.Truncate(time.Second)))
		for _, before := range rec.Status.Functions {
			if before.FunctionKey == s.FunctionKey && before.Ready == s.Ready && before.LastTransitionTime != nil {
				s.LastTransitionTime = before.LastTransitionTime
			}
		}
	}
	return list
}

func odgm(v observation) *v1alpha1.ODGMStatus {
	if len(v.rendered.ODGM) == 0 {
		return nil
	}
	host, _, _ := strings.Cut(v.rendered.ODGMAddress, ":")
	return &v1alpha1.ODGMStatus{Service: host, Address: v.rendered.ODGMAddress, Ready: v.odgmReady()}
}

// addons returns the status of each add-on of the template.
func addons(v observation) (list []v1alpha1.AddonStatus) {
	for _, a := range v.rendered.Addons {
		list = append(list, v1alpha1.AddonStatus{Name: a.Key, Ready: v.allReady(a.Workloads)})
	}
	return list
}

func (v *observation) odgmReady() bool {
	return len(v.rendered.ODGM) > 0 && v.allReady(v.rendered.ODGM)
}

func (v *observation) allReady(workloads []string) bool {
	return !slices.ContainsFunc(workloads, func(name string) bool { return !v.workload(name).ok })
}

// workload is the state of a Deployment or of a Knative Service.
type workload struct {
	desired, ready  int32
	ok              bool
	reason, message string
}

// workload returns the workload of a name.
func (v *observation) workload(name string) workload {
	if c := applyset.Find(v.children, deploymentKind, name); c != nil {
		return ofDeployment(c.Object)
	}
	if c := applyset.Find(v.children, knativeService.GroupKind(), name); c != nil {
		return ofKnative(c.Object)
	}
	return workload{reason: v1alpha1.ReasonMissing, message: "it does not exist yet"}
}

func ofDeployment(o client.Object) workload {
	d, ok := o.(*appsv1.Deployment)
	if u, applied := o.(*unstructured.Unstructured); applied { // by this reconciliation
		d, ok = &appsv1.Deployment{}, true
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
			return workload{reason: v1alpha1.ReasonUnreadable, message: err.Error()}
		}
	}
	if !ok {
		return workload{reason: v1alpha1.ReasonUnreadable}
	}
	w := workload{desired: ptr.Deref(d.Spec.Replicas, 1), ready: d.Status.ReadyReplicas}
	s := &d.Status
	w.ok = s.ObservedGeneration >= d.Generation && min(s.UpdatedReplicas, s.AvailableReplicas) >= w.desired &&
		s.Replicas == s.UpdatedReplicas
	if !w.ok {
		w.reason, w.message = v1alpha1.ReasonWaiting, fmt.Sprintf("%d of %d replicas are ready", s.ReadyReplicas, w.desired)
		for i := range s.Conditions {
			if c := &s.Conditions[i]; stuck(c) {
				w.reason, w.message = c.Reason, w.message+": "+c.Message
			}
		}
	}
	return w
}

// stuck reports whether a condition means that a Deployment makes no progress by itself.
func stuck(c *appsv1.DeploymentCondition) bool {
	return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue ||
		c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
}

func ofKnative(o client.Object) workload {
	w := workload{reason: v1alpha1.ReasonWaiting, message: "Knative has not reported a status yet"}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return w
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			w.ok = c["status"] == "True"
			w.reason, _ = c["reason"].(string)
			w.message, _ = c["message"].(string)
			if w.ok {
				w.reason, w.message = "", ""
			}
		}
	}
	return w
}

// waitingFor names what is not ready, "" if all is.
func waitingFor(s *v1alpha1.DeploymentRecordStatus) string {
	var list []string
	for _, f := range s.Functions {
		if !f.Ready {
			list = append(list, strings.TrimSuffix(fmt.Sprintf("function %s: %s", f.FunctionKey, f.Message), ": "))
		}
	}
	if s.ODGM != nil && !s.ODGM.Ready {
		list = append(list, "the ODGM is not ready")
	}
	for _, a := range s.Addons {
		if !a.Ready {
			list = append(list, "add-on "+a.Name+" is not ready")
		}
	}
	return strings.Join(list, "; ")
}

func refs(children []applyset.Child) []v1alpha1.ResourceRef {
	list := make([]v1alpha1.ResourceRef, 0, len(children))
	for i := range children {
		c := &children[i]
		list = append(list, v1alpha1.ResourceRef{
			APIVersion: c.Kind.GroupVersion().String(), Kind: c.Kind.Kind, Name: c.GetName(), UID: string(c.GetUID()),
		})
	}
	slices.SortFunc(list, func(a, b v1alpha1.ResourceRef) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	return list[:min(len(list), maxRefs)]
}

// sameStatus compares the part that the reconciler writes.
func sameStatus(have, want *v1alpha1.DeploymentRecordStatus) bool {
	h := *have
	h.NFRRecommendations, h.NFRCompliance, h.NFRWindows, h.LastApplied = nil, nil, nil, nil
	h.Conditions = reconciled(h.Conditions)
	return equality.Semantic.DeepEqual(h, *want)
}
