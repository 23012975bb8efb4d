// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
)

// TerminatesFor makes a template's pods stay Terminating for a time.
func TerminatesFor(d time.Duration) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Annotations[cluster.PodDeleteDelay] = d.String()
		t.Spec.TerminationGracePeriodSeconds = new(int64(d.Seconds()) + 1)
	}
}

// ReadyAfter makes a template's pods Ready a time after they started.
func ReadyAfter(d time.Duration) func(*corev1.PodTemplateSpec) {
	return PodAnnotation(cluster.PodReadyDelay, d.String())
}

// SucceedsAfter makes a template's pods succeed a time after they became Ready.
func SucceedsAfter(d time.Duration) func(*corev1.PodTemplateSpec) {
	return PodAnnotation(cluster.PodCompleteDelay, d.String())
}

// OwnedBy makes an object the controller of a template's pods.
func OwnedBy(owner metav1.OwnerReference) func(*corev1.PodTemplateSpec) {
	owner.Controller = new(true)
	return func(t *corev1.PodTemplateSpec) { t.OwnerReferences = []metav1.OwnerReference{owner} }
}
