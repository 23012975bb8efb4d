// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

// Controllers returns the object of an owner reference: a ReplicaSet, StatefulSet, Job, … It returns nil if the object,
// or its kind, is unknown. The pod is then governed without it.
type Controllers interface {
	Controller(namespace string, ref *metav1.OwnerReference) metav1.Object
}

// Resolver determines the mix of a pod. Its fields are set once. Resolve is safe for concurrent use.
type Resolver struct {
	Conventions
	Mixes       *Registry
	Controllers Controllers
	// Default governs pods that nothing else governs. If nil, they are ignored.
	Default *Mix
}

// Resolve returns the mix that governs a pod, nil if none does. The first match takes precedence: annotations on the
// pod, annotations on its controller, the oldest CapacityMix that selects it, the default. Invalid annotations are
// returned too and ignored.
//
// The result is shared and must not be changed.
func (r *Resolver) Resolve(pod *corev1.Pod) (*Mix, []InvalidAnnotation) {
	if !Governable(pod) {
		return nil, nil
	}
	m, invalid := r.fromObject(pod, nil, SourcePod)
	if m != nil {
		return m, invalid
	}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if owner := r.Controllers.Controller(pod.Namespace, ref); owner != nil {
			m, bad := r.fromObject(owner, pod, SourceController)
			invalid = append(invalid, bad...)
			if m != nil {
				return m, invalid
			}
		}
	}
	if m := r.Mixes.Match(pod.Namespace, pod.Labels); m != nil {
		return m.role(pod.Labels), invalid
	}
	return r.Default, invalid
}

// DefaultOf returns the mix of a pod that nothing else governs, by the names of schedulers, nil for none.
func DefaultOf(pod *corev1.Pod, defaults map[string]*Mix) *Mix {
	if !Governable(pod) {
		return nil
	}
	return defaults[cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)]
}

// fromObject parses the annotation families of one object.
func (r *Resolver) fromObject(object metav1.Object, pod *corev1.Pod, source string) (*Mix, []InvalidAnnotation) {
	if len(object.GetAnnotations()) == 0 {
		return nil, nil
	}
	var invalid []InvalidAnnotation
	for _, prefix := range r.Prefixes {
		f := families[prefix]
		m, bad := f.fromAnnotations(object, source)
		if (m != nil || bad != nil) && f.enabled != "" && !r.enabled(object, pod, f.enabled) {
			continue
		}
		if bad != nil {
			invalid = append(invalid, *bad)
		}
		if m != nil {
			return m, invalid
		}
	}
	return nil, invalid
}

// enabled reports whether annotations of Spotalis are read in the namespace, and the workload has a label with the value
// "true": the object itself, the pod, or the object's own controller. The last is for Deployments, which copy their
// annotations to their ReplicaSets but not their labels.
func (r *Resolver) enabled(object metav1.Object, pod *corev1.Pod, label string) bool {
	if !r.optedIn(object.GetNamespace()) {
		return false
	}
	if object.GetLabels()[label] == "true" || pod != nil && pod.Labels[label] == "true" {
		return true
	}
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return false
	}
	parent := r.Controllers.Controller(object.GetNamespace(), ref)
	return parent != nil && parent.GetLabels()[label] == "true"
}

// Governable reports whether a mix can apply to a pod at all. Pods of DaemonSets and mirror pods belong to a node: no
// mix moves them. Placeholder pods reserve capacity on the type that they were created for. Released replicas are about to go, and
// another pod has their slot.
func Governable(pod *corev1.Pod) bool {
	if _, holds := pod.Labels[v1alpha1.PlaceholderLabel]; holds {
		return false
	}
	if _, released := pods.ReleasedFrom(pod); released {
		return false
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	return !pods.OfNode(metav1.GetControllerOfNoCopy(pod))
}
