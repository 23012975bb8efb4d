// SPDX-License-Identifier: Apache-2.0

// Package defaulting fills a pod in with what its ResourceLimit says: requests and
// limits, volumes, and node rules.
package defaulting

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

// DefaultContainerAnnotation names a pod's main container, as kubectl reads it.
const DefaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// Resolved is what a pod says about the limit that was applied to it:
// namespace/name@generation.
func Resolved(limit *v1alpha1.ResourceLimit) string {
	return fmt.Sprintf("%s/%s@%d", limit.Namespace, limit.Name, limit.Generation)
}

// Apply fills a pod in with what a limit says and the pod does not say itself.
// It changes the pod in place; what the pod has set stays. A pod that says that
// this generation of the limit was applied to it is left as it is.
//
// The warnings name what could not be done, field and value; they keep no one
// from creating the pod.
func Apply(pod *corev1.Pod, limit *v1alpha1.ResourceLimit) (warnings []string) {
	resolved := Resolved(limit)
	if len(pod.Spec.Containers) == 0 || pod.Annotations[v1alpha1.ResolvedLimitAnnotation] == resolved {
		return nil
	}
	main := mainContainer(pod)
	warnings = append(warnings, applyResources(pod, main, &limit.Spec)...)
	warnings = append(warnings, applyVolumes(pod, main, limit.Spec.Volumes)...)
	if conflict := registry.Constrain(&pod.Spec, limit); conflict != "" {
		warnings = append(warnings, conflict)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[v1alpha1.ResolvedLimitAnnotation] = resolved
	return warnings
}

// mainContainer is the index of the container that the pod names as its
// default, else the first. What the limit says for the pod as a whole goes there.
func mainContainer(pod *corev1.Pod) int {
	name := pod.Annotations[DefaultContainerAnnotation]
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return i
		}
	}
	return 0
}
