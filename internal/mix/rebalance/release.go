// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
)

// ReleasePatch is the JSON merge patch that releases a replica from its ReplicaSet, which selects it by the label key, and from the group
// with the ID. It is one patch, because the ReplicaSet creates the replacement at once, which takes the slot.
//
// The pod stays owned by the ReplicaSet, so that it is deleted with it, and the kubelet ends it after a time. An autoscaler does not
// remove the node of a pod without a controller, unless the pod allows it.
func ReleasePatch(pod *corev1.Pod, group, key string, runsFor time.Duration, now time.Time) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
			"labels": map[string]any{key: nil},
			"annotations": map[string]any{
				v1alpha1.SlotAnnotation: nil, v1alpha1.ClaimAnnotation: nil, v1alpha1.PodDeletionCostAnnotation: nil,
				pods.SafeToEvict:            "true",
				v1alpha1.ReleasedAnnotation: pods.ReleasedValue(pod.UID, group),
			},
			"ownerReferences": uncontrolled(pod.OwnerReferences),
		},
		"spec": map[string]any{"activeDeadlineSeconds": endOf(pod, runsFor, now)},
	})
	if err != nil {
		return nil, fmt.Errorf("write the patch that releases pod %s: %w", pod.Name, err)
	}
	return patch, nil
}

func uncontrolled(refs []metav1.OwnerReference) []metav1.OwnerReference {
	all := make([]metav1.OwnerReference, 0, len(refs))
	for _, ref := range refs {
		if ref.Controller != nil && *ref.Controller {
			ref.Controller, ref.BlockOwnerDeletion = nil, nil
		}
		all = append(all, ref)
	}
	return all
}

// endOf is the time from the start of a pod to its end, in seconds, if it runs for some time from now on. An earlier end stays.
func endOf(pod *corev1.Pod, runsFor time.Duration, now time.Time) int64 {
	if start := pod.Status.StartTime; start != nil && now.After(start.Time) {
		runsFor += now.Sub(start.Time)
	}
	end := int64(runsFor / time.Second)
	if own := pod.Spec.ActiveDeadlineSeconds; own != nil {
		end = min(end, *own)
	}
	return end
}
