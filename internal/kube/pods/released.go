// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// ReleasedValue is the value of v1alpha1.ReleasedAnnotation on a pod that leaves a group.
func ReleasedValue(uid types.UID, group string) string { return string(uid) + "/" + group }

// ReleasedFrom returns the ID of the group that a pod was released from, and whether it was: it has no controller, and the annotation
// is its own. Pods that a template gives the annotation have neither.
func ReleasedFrom(pod *corev1.Pod) (group string, released bool) {
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return "", false
	}
	return ReleasedGroup(pod.Annotations, pod.UID)
}

// ReleasedGroup is ReleasedFrom for a pod without a controller.
func ReleasedGroup(annotations map[string]string, uid types.UID) (group string, released bool) {
	of, group, ok := strings.Cut(annotations[v1alpha1.ReleasedAnnotation], "/")
	if !ok || uid == "" || of != string(uid) {
		return "", false
	}
	return group, true
}
