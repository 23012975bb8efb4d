// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
)

// observed says how each component stands. Wanted are the objects that there should be, nil if that is not decided yet; what
// is there but not so is not current.
func (l *look) observed(wanted []*unstructured.Unstructured) map[string]render.Observed {
	out := map[string]render.Observed{}
	for i := range l.components {
		c := &l.components[i]
		var o render.Observed
		if have := l.workloadOf(c, wanted); have != nil {
			o = stateOf(have)
			o.Current = o.Current && (wanted == nil || current(have, wanted))
		}
		l.addPods(c.Name, &o)
		out[c.Name] = o
	}
	return out
}

// workloadOf finds what a component runs as: of a Job the one that there should be, else any that is left.
func (l *look) workloadOf(c *render.Component, wanted []*unstructured.Unstructured) *child {
	kind := string(c.Workload)
	for _, w := range wanted {
		if w.GetKind() == kind && w.GetLabels()[v1alpha1.EnvironmentComponentLabel] == c.Name {
			return l.find(kind, w.GetName())
		}
	}
	for i := range l.there {
		if o := &l.there[i]; o.kind == kind && o.GetLabels()[v1alpha1.EnvironmentComponentLabel] == c.Name {
			return o
		}
	}
	return nil
}

// current reports whether a workload is as it should be.
func current(have *child, wanted []*unstructured.Unstructured) bool {
	for _, w := range wanted {
		if w.GetKind() == have.kind && w.GetName() == have.GetName() {
			return applyset.Covered(have.Object, w)
		}
	}
	return false
}

func stateOf(have *child) render.Observed {
	switch o := have.Object.(type) {
	case *appsv1.Deployment:
		return ofDeployment(o)
	case *appsv1.StatefulSet:
		return ofStatefulSet(o)
	case *batchv1.Job:
		return ofJob(o)
	}
	return render.Observed{}
}

func ofDeployment(o *appsv1.Deployment) render.Observed {
	s := &o.Status
	out := render.Observed{
		Current: s.ObservedGeneration >= o.Generation, Replicas: ptr.Deref(o.Spec.Replicas, 1), Ready: s.ReadyReplicas,
		Updated: min(s.UpdatedReplicas, s.AvailableReplicas), RestartedAt: o.Spec.Template.Annotations[v1alpha1.RestartedAtAnnotation],
	}
	if s.Replicas > s.UpdatedReplicas {
		out.Updated = 0 // pods of the revision before are still there
	}
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			out.Reason, out.Message = c.Reason, c.Message
		}
	}
	return out
}

func ofStatefulSet(o *appsv1.StatefulSet) render.Observed {
	s := &o.Status
	out := render.Observed{
		Current: s.ObservedGeneration >= o.Generation, Replicas: ptr.Deref(o.Spec.Replicas, 1), Ready: s.ReadyReplicas,
		RestartedAt: o.Spec.Template.Annotations[v1alpha1.RestartedAtAnnotation],
	}
	if s.CurrentRevision == s.UpdateRevision || s.UpdatedReplicas >= s.Replicas {
		out.Updated = s.ReadyReplicas
	}
	return out
}

func ofJob(o *batchv1.Job) render.Observed {
	s := &o.Status
	out := render.Observed{Current: true, Replicas: ptr.Deref(o.Spec.Completions, 1), RestartedAt: o.Spec.Template.Annotations[v1alpha1.RestartedAtAnnotation]}
	if s.Ready != nil {
		out.Ready = *s.Ready
	}
	for i := range s.Conditions {
		switch c := &s.Conditions[i]; {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			out.Done = true
		case c.Type == batchv1.JobFailed:
			out.Reason, out.Message = c.Reason, c.Message
		}
	}
	return out
}

// addPods adds what the pods of a component say: that they are there, how often they were started again, and what is wrong
// with the first that has something wrong.
func (l *look) addPods(component string, o *render.Observed) {
	for i := range l.pods {
		p := &l.pods[i]
		if p.Labels[v1alpha1.EnvironmentComponentLabel] != component || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		o.Pods++
		for _, s := range p.Status.ContainerStatuses {
			o.Restarts += s.RestartCount
		}
		if o.Reason == "" {
			o.Reason, o.Message = wrong(p)
		}
	}
}

// wrong says what keeps a pod from running, "" for nothing that is known.
func wrong(p *corev1.Pod) (reason, message string) {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return w.Reason, cmp.Or(w.Message, w.Reason)
		}
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason, fmt.Sprintf("pod %s has no node: %s", p.Name, c.Message)
		}
	}
	return "", ""
}
