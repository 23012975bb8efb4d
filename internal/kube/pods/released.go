// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
)

// Release is where a pod was released from.
type Release struct {
	// ReplicaSet is the UID of the one that made the pod, and Group the ID of the group that it left.
	ReplicaSet types.UID
	Group      string
}

// Value is the value of v1alpha1.ReleasedAnnotation on a pod.
func (r Release) Value(pod types.UID) string {
	return string(pod) + "/" + string(r.ReplicaSet) + "/" + r.Group
}

// ReleasedFrom returns where a pod was released from, and whether it was: the annotation is its own, and no ReplicaSet controls it. Pods
// that a template gives the annotation have neither.
func ReleasedFrom(pod *corev1.Pod) (r Release, released bool) {
	return ReleasedBy(pod.Annotations, pod.UID, metav1.GetControllerOfNoCopy(pod))
}

// ReleasedBy is ReleasedFrom for the annotations, the UID and the controller of a pod, nil for none.
func ReleasedBy(annotations map[string]string, uid types.UID, controller *metav1.OwnerReference) (r Release, released bool) {
	if controller != nil && controller.Kind == "ReplicaSet" {
		return r, false
	}
	of, rest, ok := strings.Cut(annotations[v1alpha1.ReleasedAnnotation], "/")
	owner, group, both := strings.Cut(rest, "/")
	if !ok || !both || uid == "" || of != string(uid) {
		return r, false
	}
	return Release{ReplicaSet: types.UID(owner), Group: group}, true
}

// Leaves reports whether a released pod is as berth-controller leaves it: it ends by itself, and is deleted with its ReplicaSet.
func Leaves(pod *corev1.Pod) bool {
	r, released := ReleasedFrom(pod)
	if !released || pod.Spec.ActiveDeadlineSeconds == nil {
		return false
	}
	for i := range pod.OwnerReferences {
		if ref := &pod.OwnerReferences[i]; ref.Kind == "ReplicaSet" && ref.UID == r.ReplicaSet {
			return true
		}
	}
	return false
}
