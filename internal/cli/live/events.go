// SPDX-License-Identifier: Apache-2.0

package live

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventTime is when an event of either API was recorded.
func EventTime(e *corev1.Event) metav1.Time {
	switch {
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	}
	return e.CreationTimestamp
}
