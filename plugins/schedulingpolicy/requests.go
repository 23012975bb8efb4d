// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/plugins/internal/admission"
)

// defaultCPU, in millicores, and defaultMemory, in bytes, are those that the scheduler counts for a container without a request.
const defaultCPU, defaultMemory int64 = 100, 200 << 20

// requestsOf is what a pod requests of CPU, in millicores, and of memory, in bytes, as the scheduler counts it for spreading: a
// container without a request counts with a default. It is CalculateResource of PodInfo, whose lists are five sixths of the
// memory that a policy costs a cycle, so most pods are added up without it.
func requestsOf(check admission.Check, pod *corev1.Pod) (cpu, memory int64) {
	if !countsByContainers(pod) {
		r := check.PodInfo(pod).CalculateResource()
		return r.Non0CPU, r.Non0Mem
	}
	for i := range pod.Spec.Containers {
		requests := pod.Spec.Containers[i].Resources.Requests
		c, m := defaultCPU, defaultMemory
		if q, has := requests[corev1.ResourceCPU]; has {
			c = q.MilliValue()
		}
		if q, has := requests[corev1.ResourceMemory]; has {
			m = q.Value()
		}
		cpu, memory = budget.Add(cpu, c), budget.Add(memory, m)
	}
	return cpu, memory
}

// countsByContainers reports whether a pod requests what its containers request, and nothing else counts.
func countsByContainers(pod *corev1.Pod) bool {
	spec, status := &pod.Spec, &pod.Status
	return len(spec.InitContainers) == 0 && len(spec.Overhead) == 0 && spec.Resources == nil && len(spec.ResourceClaims) == 0 &&
		len(status.ContainerStatuses) == 0 && status.Resources == nil && status.AllocatedResources == nil &&
		!resourcehelper.IsPodResizeInfeasible(pod)
}
