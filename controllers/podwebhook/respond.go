// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/rebalance"
)

// maxResponders is how many responders a pod may have. The API server refuses a pod with more.
const maxResponders = 10

// respond names Berth among the responders of a pod that is released before it goes. The field cannot be changed later. A member of a
// PodGroup may have no responders: one that another webhook made a member is called again, and gives up the name. Doing it again changes
// nothing.
func respond(pod *corev1.Pod, surges bool) {
	spec := &pod.Spec
	switch {
	case spec.SchedulingGroup != nil:
		pods.UnnameBerth(pod)
	case !surges, spec.NodeName != "", !rebalance.HasRevision(pod), len(spec.EvictionResponders) >= maxResponders, pods.NamesBerth(pod):
	default:
		spec.EvictionResponders = append(spec.EvictionResponders, corev1.EvictionResponder{
			Name: v1alpha1.EvictionResponder, Priority: new(v1alpha1.EvictionResponderPriority),
		})
	}
}
