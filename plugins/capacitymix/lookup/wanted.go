// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Wanted returns how many replicas the group of a pod shall have, 0 where that is not known: the group has other pods than those that one
// owner makes, or units of pods. It reads caches only.
//
// Each revision of a Deployment shall have all of its replicas: a rollout grows the new one from a few, of which a share would be too
// small to go on.
func (o *Owners) Wanted(pod *corev1.Pod, member governing.Member) int {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || member.Unit != "" {
		return 0
	}
	owner, _ := o.get(pod.Namespace, ref)
	if owner == nil {
		return 0
	}
	switch member.Group.Owner() {
	case owner.GetUID():
		return max(Requested(owner), desired(owner))
	case above(owner):
		return desired(owner)
	}
	return 0
}

// above is the UID of the Deployment that owns a ReplicaSet, of which the pods may be one group.
func above(owner metav1.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(owner); ref != nil && ref.UID != "" {
		return ref.UID
	}
	return "-"
}

// Requested is how many pods an owner requests, 0 for one of which that is not known.
func Requested(owner metav1.Object) int {
	n := int32(0)
	switch owner := owner.(type) {
	case *appsv1.ReplicaSet:
		n = ptr.Deref(owner.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		n = ptr.Deref(owner.Spec.Replicas, 1)
	case *batchv1.Job:
		n = min(ptr.Deref(owner.Spec.Parallelism, 1), ptr.Deref(owner.Spec.Completions, math.MaxInt32))
	}
	return min(max(int(n), 0), split.MaxSlot+1)
}

// desired is how many pods the Deployment of a ReplicaSet requests, 0 where there is none. Anyone who may create a ReplicaSet writes
// that number, so it is bounded by the slots there are.
func desired(owner metav1.Object) int {
	rs, ok := owner.(*appsv1.ReplicaSet)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(rs.Annotations[desiredReplicasAnnotation])
	if err != nil {
		return 0
	}
	return min(max(n, 0), split.MaxSlot+1)
}
