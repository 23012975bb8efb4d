// SPDX-License-Identifier: Apache-2.0

package nodesample

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/plugins/internal/taints"
)

// requiresParticularNodes reports whether a pod requires particular nodes, which
// a sample over all nodes of a type is likely to miss. Such pods are tried on all
// at once. The entry by which an ungated pod is limited to its type does not count.
func requiresParticularNodes(pod *corev1.Pod, typeLabel string) bool {
	if hasNodeSelector(pod, typeLabel) {
		return true
	}
	if a := pod.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			return true
		}
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true // volumes tie the pod to a zone or a node
		}
	}
	return len(pod.Spec.ResourceClaims) > 0 || requestsExtendedResources(pod)
}

// requestsExtendedResources reports whether a pod requests a resource that few nodes have, such as a GPU.
func requestsExtendedResources(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				switch name {
				case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
				default:
					return true
				}
			}
		}
	}
	return false
}

// hasNodeSelector reports whether a pod has a nodeSelector of its own.
func hasNodeSelector(pod *corev1.Pod, typeLabel string) bool {
	n := len(pod.Spec.NodeSelector)
	if _, limited := pod.Spec.NodeSelector[typeLabel]; n == 1 && limited {
		if _, ungated := gate.LimitedTo(pod); ungated {
			return false
		}
	}
	return n > 0
}

// prefersNodes reports whether a pod states which of the nodes it can have are
// better or worse, or has rules that are not examined here: then the whole
// sample is returned, for the other plugins to choose from.
func prefersNodes(pod *corev1.Pod) bool {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || pod.Labels[v1alpha1.ResourceLimitLabel] != "" {
		return true
	}
	if a := pod.Spec.Affinity; a != nil && (a.NodeAffinity != nil || a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return true
	}
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort > 0 {
				return true
			}
		}
	}
	return false
}

// requests is what a pod requests of CPU, in millicores, and of memory, in bytes.
func requests(pod *corev1.Pod) (cpu, memory int64) {
	s := &pod.Spec
	if len(s.InitContainers) > 0 || len(s.Overhead) > 0 || s.Resources != nil {
		r := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
		return r.Cpu().MilliValue(), r.Memory().Value()
	}
	for i := range s.Containers {
		r := s.Containers[i].Resources.Requests
		cpu += r.Cpu().MilliValue()
		memory += r.Memory().Value()
	}
	return cpu, memory
}

// tolerates decides as the TaintToleration filter does, so that the few nodes of
// the sample are not spent on those it rejects.
func tolerates(pod *corev1.Pod, info fwk.NodeInfo) bool {
	_, untolerated := taints.Untolerated(info.Node(), pod, taints.Repels)
	return !untolerated
}

// freeAfter is a rough, cheap form of the NodeResourcesFit filter, which still
// decides, and of its score: how much CPU and memory the pod would leave free, in
// hundredths of a percent.
func freeAfter(info fwk.NodeInfo, cpu, memory int64) (cpuShare, memoryShare int64, fits bool) {
	allocatable, requested := info.GetAllocatable(), info.GetRequested()
	freeCPU := allocatable.GetMilliCPU() - requested.GetMilliCPU() - cpu
	freeMemory := allocatable.GetMemory() - requested.GetMemory() - memory
	if freeCPU < 0 || freeMemory < 0 || len(info.GetPods()) >= allocatable.GetAllowedPodNumber() {
		return 0, 0, false
	}
	return share(freeCPU, allocatable.GetMilliCPU()), share(freeMemory, allocatable.GetMemory()), true
}

// share is a part of a whole in hundredths of a percent.
func share(part, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	return part * 100 * fwk.MaxScore / whole
}
