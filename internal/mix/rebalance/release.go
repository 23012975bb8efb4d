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
	"berth.dev/berth/internal/mix/clusterstate"
)

// ReleasePatch is the JSON merge patch that releases a replica of a group from its ReplicaSet, which selects it by the label key. It is one
// patch, because the ReplicaSet creates the replacement at once, which takes the slot.
//
// The workload, a Deployment or a Rollout, becomes the controller of the pod: it counts no pods that its ReplicaSets do not own, disruption
// budgets count it with the same scale, and drains and autoscalers evict a pod only if something controls it. The ReplicaSet stays an
// owner, so that the pod is deleted with both. The kubelet ends the pod after a time.
func ReleasePatch(pod *corev1.Pod, g *clusterstate.Group, key string, runsFor time.Duration, now time.Time) ([]byte, error) {
	from := pods.Release{Group: g.Key.ID}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		from.ReplicaSet = ref.UID
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
			"labels": map[string]any{key: nil},
			"annotations": map[string]any{
				v1alpha1.SlotAnnotation: nil, v1alpha1.ClaimAnnotation: nil, v1alpha1.PodDeletionCostAnnotation: nil,
				pods.SafeToEvict:            "true",
				v1alpha1.ReleasedAnnotation: from.Value(pod.UID),
			},
			"ownerReferences": append(uncontrolled(pod.OwnerReferences), metav1.OwnerReference{
				APIVersion: g.Workload.APIVersion, Kind: g.Workload.Kind, Name: g.Workload.Name, UID: g.Workload.UID, Controller: new(true),
			}),
		},
		"spec": map[string]any{"activeDeadlineSeconds": endOf(pod, runsFor, now)},
	})
	if err != nil {
		return nil, fmt.Errorf("write the patch that releases pod %s: %w", pod.Name, err)
	}
	return patch, nil
}

func uncontrolled(refs []metav1.OwnerReference) []metav1.OwnerReference {
	all := make([]metav1.OwnerReference, 0, len(refs)+1)
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
