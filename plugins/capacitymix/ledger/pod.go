// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

// Active reports whether a pod holds its slot: terminating and finished pods do not.
func Active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && !pods.Finished(pod)
}

// Unschedulable returns the condition of a pod for which a scheduler found no node, nil for others.
func Unschedulable(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c
		}
	}
	return nil
}

// Annotations record the claim of a pod on the pod. The ledger is rebuilt from them.
func Annotations(pod *corev1.Pod, slot int, t capacity.Type, p *governing.Mix) map[string]string {
	a := map[string]string{
		v1alpha1.SlotAnnotation:         strconv.Itoa(slot),
		v1alpha1.CapacityTypeAnnotation: t.String(),
		v1alpha1.MixAnnotation:          p.Source,
	}
	// The ReplicaSet controller removes the lowest cost first, so the highest
	// slot. A cost that the user set has precedence over ours.
	if _, set := pod.Annotations[v1alpha1.PodDeletionCostAnnotation]; !set && !p.RespectCosts {
		a[v1alpha1.PodDeletionCostAnnotation] = governing.DeletionCost(slot)
	}
	return a
}
