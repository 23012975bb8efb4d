// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
)

// RemovedInAnyOrder reports whether the owner of a pod removes its pods in an order that does not follow their slots. The controllers of
// ReplicaSets and ReplicationControllers remove the pod with the lowest deletion cost first, which Berth sets by the slot unless the
// user has set one; the slot of a StatefulSet's pod follows from its ordinal. All others count: pods of a Job end when their work is
// done, and of other owners nothing is known.
func RemovedInAnyOrder(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	switch {
	case ref.Kind == "StatefulSet" && strings.HasPrefix(ref.APIVersion, appsv1.GroupName+"/"):
		return false
	case ref.Kind == "ReplicaSet" && strings.HasPrefix(ref.APIVersion, appsv1.GroupName+"/"),
		ref.Kind == "ReplicationController" && ref.APIVersion == "v1":
		cost, set := pod.Annotations[v1alpha1.PodDeletionCostAnnotation]
		slot, _ := ClaimedSlot(pod)
		return set && (slot == split.NoSlot || cost != DeletionCost(slot))
	}
	return true
}
