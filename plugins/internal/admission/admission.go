// SPDX-License-Identifier: Apache-2.0

// Package admission is what the plugins use of kube-scheduler to check whether a kubelet admits a pod. No staging module has it, so
// scheduler/upstream implements it.
package admission

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Check decides which pods a node admits.
type Check interface {
	// NodeInfo returns a node without pods.
	NodeInfo(node *corev1.Node) fwk.NodeInfo
	// PodInfo returns what a pod requests, to be added to a NodeInfo. It has no affinity.
	PodInfo(pod *corev1.Pod) fwk.PodInfo
	// Refusals returns why the kubelet of a NodeInfo's node does not admit one more pod, empty if it does: all reasons, or the first.
	Refusals(pod *corev1.Pod, node fwk.NodeInfo, all bool) []string
}
