// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// Responds reports whether a pod names someone beside Berth who answers requests to evict it, such as the operator of a database.
func Responds(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.EvictionResponders, func(r corev1.EvictionResponder) bool {
		return r.Name != v1alpha1.EvictionResponder
	})
}
