// SPDX-License-Identifier: Apache-2.0

package governing

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/replacement"
	"berth.dev/berth/internal/mix/split"
)

// RemovedByCost reports whether an owner, which may be nil, removes the pod with the lowest deletion cost first.
func RemovedByCost(owner *metav1.OwnerReference) bool {
	maker := replacement.MakerOf(owner)
	return maker == replacement.ReplicaSet || maker == replacement.ReplicationController
}

// RemovedInAnyOrder reports whether the owner of a pod removes its pods in an order that does not follow their slots. The controllers of
// ReplicaSets and ReplicationControllers remove the pod with the lowest deletion cost first, which Berth sets by the slot unless the
// user has set one, or the mix leaves the costs to others; the slot of a StatefulSet's pod follows from its ordinal. All others count:
// pods of a Job end when their work is done, and of other owners nothing is known. m may be nil.
func RemovedInAnyOrder(pod *corev1.Pod, m *Mix) bool {
	switch replacement.MakerOf(metav1.GetControllerOfNoCopy(pod)) {
	case replacement.StatefulSet:
		return false
	case replacement.ReplicaSet, replacement.ReplicationController:
		if m != nil && m.RespectCosts {
			return true
		}
		cost, set := pod.Annotations[v1alpha1.PodDeletionCostAnnotation]
		slot, _ := ClaimedSlot(pod)
		return set && (slot == split.NoSlot || cost != DeletionCost(slot))
	}
	return true
}
