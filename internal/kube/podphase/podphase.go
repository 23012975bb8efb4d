// SPDX-License-Identifier: Apache-2.0

// Package podphase has what follows from the phase of a pod.
package podphase

import corev1 "k8s.io/api/core/v1"

// Finished reports whether all containers of a pod have ended for good: it uses no capacity any more.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
