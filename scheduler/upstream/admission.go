// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Admission is the scheduler's check of whether a kubelet admits a pod, for its plugins.
type Admission struct{}

// NodeInfo returns a node without pods.
func (Admission) NodeInfo(node *corev1.Node) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(node)
	return info
}

// PodInfo returns what a pod requests, to be added to a NodeInfo. It has no affinity, which no kubelet considers.
func (Admission) PodInfo(pod *corev1.Pod) fwk.PodInfo { return &framework.PodInfo{Pod: pod} }

// Refusals returns why the kubelet of a NodeInfo's node does not admit one more pod, empty if it does: all reasons, or the first.
func (Admission) Refusals(pod *corev1.Pod, node fwk.NodeInfo, all bool) (reasons []string) {
	info, ok := node.(*framework.NodeInfo)
	if !ok {
		return []string{fmt.Sprintf("want a node of NodeInfo, got %T", node)}
	}
	for _, r := range scheduler.AdmissionCheck(pod, info, all) {
		if r.InsufficientResource != nil {
			reasons = append(reasons, r.InsufficientResource.Reason)
		} else {
			reasons = append(reasons, r.Reason)
		}
	}
	return reasons
}
