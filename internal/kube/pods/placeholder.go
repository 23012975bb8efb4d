// SPDX-License-Identifier: Apache-2.0

package pods

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// IsPlaceholder reports whether a pod only holds capacity: for a replica that is moved, or for a Reservation.
func IsPlaceholder(pod *corev1.Pod) bool {
	_, holds := pod.Labels[v1alpha1.PlaceholderLabel]
	return holds
}

// Created reports whether an API server has a pod. A pod that the scheduler finds a node for a Reservation by is never created,
// and no user can make one that looks like it.
func Created(pod *corev1.Pod) bool { return pod.ResourceVersion != "" || !IsPlaceholder(pod) }
