// SPDX-License-Identifier: Apache-2.0

// Package pods has what every part reads from a pod in the same way: its phase, whether it is a placeholder, and the annotations of other
// tools.
package pods

import corev1 "k8s.io/api/core/v1"

// Finished reports whether all containers of a pod have ended for good: it uses no capacity any more.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
