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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

const (
	maxMessage = 1024
	maxRefs    = 512
)

// view is what a look at a record found.
type view struct {
	template string
	// rendered is nil where the record is refused, or leaving.
	rendered *render.Rendered
	children []child
	refused  *render.Error
}

// report writes the status of a record if it is another one, and records what happened.
func (r *Reconciler) report(ctx context.Context, rec *v1alpha1.DeploymentRecord, v view, notes []note) (reconcile.Result, error) {
	status := compose(rec, v, r.Clock.Now())
	result := reconcile.Result{RequeueAfter: resync}
	if v.refused != nil {
		result.RequeueAfter = again
	}
	if !sameStatus(&rec.Status, &status) {
		if written, err := writeStatus(ctx, r.Client, rec, &status, FieldOwner); !written {
			return reconcile.Result{}, err
		}
		notes = append(notes, turned(&rec.Status, &status)...)
	}
	for _, n := range notes {
		kind := corev1.EventTypeNormal
		if n.reason == v1alpha1.EventReasonDegraded {
			kind = corev1.EventTypeWarning
		}
		r.say(rec, kind, n.reason, "%s", n.message)
	}
	return result, nil
}

// say records an event of a record, with the name of the call that last wrote it.
func (r *Reconciler) say(rec *v1alpha1.DeploymentRecord, kind, reason, format string, args ...any) {
	var annotations map[string]string
	if id := rec.Annotations[v1alpha1.CorrelationIDAnnotation]; id != "" {
		annotations = map[string]string{v1alpha1.CorrelationIDAnnotation: id}
	}
	r.Recorder.AnnotatedEventf(rec, annotations, kind, reason, format, args...)
}

// writeStatus applies a part of a record's status. It is not written, without an error, if the record is gone.
func writeStatus(ctx context.Context, c client.Client, rec *v1alpha1.DeploymentRecord, status *v1alpha1.DeploymentRecordStatus, owner client.FieldOwner) (written bool, err error) {
	version, err := applyset.Status(ctx, c, recordKind, rec, status, owner)
	if version != "" {
		statusWrites.Inc()
	}
	return version != "", err
}

// turned are the events of a change of phase.
func turned(before, after *v1alpha1.DeploymentRecordStatus) []note {
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

// compose returns the part of a record's status that the reconciler writes; the
// rest is the analyzer's. It is a pure function: the same state gives the same status.
func compose(rec *v1alpha1.DeploymentRecord, v view, now time.Time) v1alpha1.DeploymentRecordStatus {
	s := v1alpha1.DeploymentRecordStatus{ObservedGeneration: rec.Generation, Template: v.template}
	for _, c := range rec.Status.Conditions {
		if c.Type != v1alpha1.ConditionNFRObserved {
			s.Conditions = append(s.Conditions, c)
		}
	}
	switch {
	case v.rendered != nil:
		s.Functions, s.ODGM = functions(rec, v, now), odgm(v)
	default: // what was known stays, such as the names of functions
		s.Functions, s.ODGM = rec.Status.Functions, rec.Status.ODGM
		s.Template = cmp.Or(s.Template, rec.Status.Template)
	}
	s.ResourceRefs = refs(v.children)
	waiting := waitingFor(&s)
	available := metav1.Condition{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "AllReady", Message: fmt.Sprintf("%d functions answer", len(s.Functions))}
	progressing := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: "Settled", Message: "nothing is being changed"}
	degraded := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: "Configured", Message: "deployed as configured"}
	s.Phase, s.Message = v1alpha1.PhaseAvailable, "Available"
	if waiting != "" {
		s.Phase, s.Message = v1alpha1.PhaseProgressing, waiting
		available.Status, available.Reason, available.Message = metav1.ConditionFalse, "NotReady", waiting
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, "Waiting", waiting
	}
	if v.refused != nil {
		s.Phase, s.Message = v1alpha1.PhaseDegraded, v.refused.Error()
		degraded.Status, degraded.Reason, degraded.Message = metav1.ConditionTrue, v.refused.Reason, v.refused.Error()
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionFalse, "Degraded", "it cannot be deployed as configured"
		if len(v.children) == 0 {
			available.Status, available.Reason, available.Message = metav1.ConditionFalse, v.refused.Reason, "nothing is deployed"
		}
	}
	if rec.DeletionTimestamp != nil {
		s.Phase, s.Message = v1alpha1.PhaseDeleting, fmt.Sprintf("%d objects are still there", len(v.children))
	}
	s.Message = applyset.Shorten(s.Message, maxMessage)
	for _, c := range []metav1.Condition{available, progressing, degraded} {
		c.ObservedGeneration, c.LastTransitionTime, c.Message = rec.Generation, metav1.NewTime(now), applyset.Shorten(c.Message, maxMessage)
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

// functions says how each function stands.
func functions(rec *v1alpha1.DeploymentRecord, v view, now time.Time) []v1alpha1.FunctionStatus {
	list := make([]v1alpha1.FunctionStatus, len(v.rendered.Functions))
	for i := range list {
		f := &v.rendered.Functions[i]
		s := &list[i]
		*s = v1alpha1.FunctionStatus{FunctionKey: f.Spec.FunctionKey, Service: f.Name, URL: f.URL(rec.Namespace)}
		if f.Name == "" {
			s.Ready, s.Reason = v.odgmReady(), "RunsInODGM"
		} else {
			s.Port = 80
			w := v.workload(f.Name)
			s.Replicas, s.ReadyReplicas = w.asked, w.ready
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

func odgm(v view) *v1alpha1.ODGMStatus {
	if v.rendered.ODGM == "" {
		return nil
	}
	host, _, _ := strings.Cut(v.rendered.ODGMAddress, ":")
	return &v1alpha1.ODGMStatus{Service: host, Address: v.rendered.ODGMAddress, Ready: v.odgmReady()}
}

func (v *view) odgmReady() bool { return v.rendered.ODGM != "" && v.workload(v.rendered.ODGM).ok }

// workload is how a Deployment, or a Knative Service, stands.
type workload struct {
	asked, ready    int32
	ok              bool
	reason, message string
}

// workload looks for the workload of a name among the children.
func (v *view) workload(name string) workload {
	if c := find(v.children, deploymentKind, name); c != nil {
		return ofDeployment(c.Object)
	}
	if c := find(v.children, knativeService.GroupKind(), name); c != nil {
		return ofKnative(c.Object)
	}
	return workload{reason: "Missing", message: "it is not there yet"}
}

func ofDeployment(o client.Object) workload {
	d, ok := o.(*appsv1.Deployment)
	if u, applied := o.(*unstructured.Unstructured); applied { // just now
		d, ok = &appsv1.Deployment{}, true
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
			return workload{reason: "Unreadable", message: err.Error()}
		}
	}
	if !ok {
		return workload{reason: "Unreadable"}
	}
	w := workload{asked: 1, ready: d.Status.ReadyReplicas}
	if d.Spec.Replicas != nil {
		w.asked = *d.Spec.Replicas
	}
	s := &d.Status
	w.ok = s.ObservedGeneration >= d.Generation && min(s.UpdatedReplicas, s.AvailableReplicas) >= w.asked && s.Replicas == s.UpdatedReplicas
	if !w.ok {
		w.reason, w.message = "Waiting", fmt.Sprintf("%d of %d replicas are ready", s.ReadyReplicas, w.asked)
		for i := range s.Conditions {
			if c := &s.Conditions[i]; stuck(c) {
				w.reason, w.message = c.Reason, w.message+": "+c.Message
			}
		}
	}
	return w
}

// stuck reports whether a condition says that a Deployment will not come further by itself.
func stuck(c *appsv1.DeploymentCondition) bool {
	return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue ||
		c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse
}

func ofKnative(o client.Object) workload {
	w := workload{reason: "Waiting", message: "Knative has not said anything yet"}
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
	return strings.Join(list, "; ")
}

func refs(children []child) []v1alpha1.ResourceRef {
	list := make([]v1alpha1.ResourceRef, 0, len(children))
	for i := range children {
		c := &children[i]
		list = append(list, v1alpha1.ResourceRef{APIVersion: c.kind.GroupVersion().String(), Kind: c.kind.Kind, Name: c.GetName(), UID: string(c.GetUID())})
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
	h.Conditions = slices.DeleteFunc(slices.Clone(h.Conditions), func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionNFRObserved })
	return equality.Semantic.DeepEqual(h, *want)
}
