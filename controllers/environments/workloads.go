// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/pods"
)

// observed returns the state of each component. A workload that is not as desired is not current; before it is decided what is
// desired, every workload is.
func (v *observation) observed() map[string]render.Observed {
	out := map[string]render.Observed{}
	for i := range v.components {
		c := &v.components[i]
		var o render.Observed
		if workload, desired := v.workloadOf(c); workload != nil {
			o = stateOf(workload)
			o.Current = o.Current && (v.desired == nil || desired != nil && applyset.Covered(workload.Object, desired.Unstructured))
		}
		v.addPods(c.Name, &o)
		out[c.Name] = o
	}
	return out
}

// workloadOf returns the workload of a component, and the desired one: of a Job the desired one, else any that is left.
func (v *observation) workloadOf(c *stack.Component) (*applyset.Child, *applyset.Desired) {
	is := func(o client.Object, kind string) bool {
		return kind == string(c.Workload) && o.GetLabels()[v1alpha1.EnvironmentComponentLabel] == c.Name
	}
	for _, d := range v.desired {
		if is(d, d.GetKind()) {
			return applyset.Existing(v.children, d.Unstructured), d
		}
	}
	for i := range v.children {
		if child := &v.children[i]; is(child, child.Kind.Kind) {
			return child, nil
		}
	}
	return nil, nil
}

func stateOf(workload *applyset.Child) render.Observed {
	switch o := workload.Object.(type) {
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
		Current:     s.ObservedGeneration >= o.Generation,
		Replicas:    ptr.Deref(o.Spec.Replicas, 1),
		Ready:       s.ReadyReplicas,
		Updated:     min(s.UpdatedReplicas, s.AvailableReplicas),
		RestartedAt: o.Spec.Template.Annotations[v1alpha1.RestartedAtAnnotation],
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
		Current:     s.ObservedGeneration >= o.Generation,
		Replicas:    ptr.Deref(o.Spec.Replicas, 1),
		Ready:       s.ReadyReplicas,
		RestartedAt: o.Spec.Template.Annotations[v1alpha1.RestartedAtAnnotation],
	}
	if s.CurrentRevision == s.UpdateRevision || s.UpdatedReplicas >= s.Replicas {
		out.Updated = s.ReadyReplicas
	}
	return out
}

func ofJob(o *batchv1.Job) render.Observed {
	s := &o.Status
	out := render.Observed{
		Current:     true,
		Replicas:    ptr.Deref(o.Spec.Completions, 1),
		Ready:       ptr.Deref(s.Ready, 0),
		RestartedAt: o.Spec.Template.Annotations[v1alpha1.RestartedAtAnnotation],
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

// addPods adds the number of pods of a component and of their restarts, and the problem of the first pod that has one.
func (v *observation) addPods(component string, o *render.Observed) {
	for i := range v.pods {
		p := &v.pods[i]
		if p.Labels[v1alpha1.EnvironmentComponentLabel] != component || pods.Finished(p) {
			continue
		}
		o.Pods++
		for _, s := range p.Status.ContainerStatuses {
			o.Restarts += s.RestartCount
		}
		if o.Reason == "" {
			o.Reason, o.Message = problemOf(p)
		}
	}
}

// problemOf returns what keeps a pod from running, "" for nothing that is known.
func problemOf(p *corev1.Pod) (reason, message string) {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			return w.Reason, cmp.Or(w.Message, w.Reason)
		}
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason, fmt.Sprintf("pod %s has no node: %s", p.Name, c.Message)
		}
	}
	return "", ""
}
