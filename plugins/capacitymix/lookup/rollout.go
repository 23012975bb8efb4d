// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/mix/split"
)

// Annotations that the Deployment controller keeps on its ReplicaSets; it does
// not export their names.
const (
	desiredReplicasAnnotation = "deployment.kubernetes.io/desired-replicas"
	revisionAnnotation        = "deployment.kubernetes.io/revision"
)

// GrowingTo returns the size to which a rollout is growing the pod's revision,
// 0 if the pod is not of a revision that a rollout is growing. Anyone who may
// create a ReplicaSet writes that size, so it is bounded by the slots there are.
//
// A rollout creates the new revision a few pods at a time, and the first slots
// are the on-demand ones. Where the old revision fills the on-demand nodes,
// those few would wait for capacity that comes only when they run: a deadlock that
// the workload would not have without a mix. Such a pod may take, ahead of its
// turn, a slot of the other type that its revision will have in the end.
func (o *Owners) GrowingTo(pod *corev1.Pod) int {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return 0
	}
	rs, ok := o.Controller(pod.Namespace, ref).(*appsv1.ReplicaSet)
	if !ok || rs.Spec.Replicas == nil {
		return 0
	}
	desired, err := strconv.Atoi(rs.Annotations[desiredReplicasAnnotation])
	if err != nil || desired <= int(*rs.Spec.Replicas) || !o.newest(rs) {
		return 0
	}
	return min(desired, split.MaxSlot+1)
}

// newest reports whether a ReplicaSet is the newest revision of its Deployment.
// The others are being scaled down; their pods have no slots to come.
func (o *Owners) newest(rs *appsv1.ReplicaSet) bool {
	owner := metav1.GetControllerOfNoCopy(rs)
	if owner == nil {
		return false
	}
	all, err := o.replicaSets.ReplicaSets(rs.Namespace).List(labels.Everything())
	if err != nil {
		return false
	}
	own := revision(rs)
	for _, other := range all {
		if ref := metav1.GetControllerOfNoCopy(other); ref != nil && ref.UID == owner.UID && revision(other) > own {
			return false
		}
	}
	return true
}

func revision(rs *appsv1.ReplicaSet) int {
	n, _ := strconv.Atoi(rs.Annotations[revisionAnnotation]) // 0 is older than all
	return n
}
