// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// NamesBerth reports whether a pod names Berth among those who answer requests to evict it.
func NamesBerth(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.EvictionResponders, isBerth)
}

// UnnameBerth removes Berth from those who answer requests to evict a pod.
func UnnameBerth(pod *corev1.Pod) {
	spec := &pod.Spec
	if spec.EvictionResponders = slices.DeleteFunc(spec.EvictionResponders, isBerth); len(spec.EvictionResponders) == 0 {
		spec.EvictionResponders = nil
	}
}

func isBerth(r corev1.EvictionResponder) bool { return r.Name == v1alpha1.EvictionResponder }

// Responds reports whether a pod names someone beside Berth who answers requests to evict it, such as the operator of a database.
func Responds(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.EvictionResponders, func(r corev1.EvictionResponder) bool {
		return !isBerth(r)
	})
}
