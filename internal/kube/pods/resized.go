// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// Resized reports whether a pod's status has other resources than its spec, as while it is resized in place: the larger
// ones then count. The kubelet reports the resources of every pod, so mostly nothing of the status needs to be kept.
func Resized(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			return true
		}
	}
	return differs(p.Spec.Containers, p.Status.ContainerStatuses) || differs(p.Spec.InitContainers, p.Status.InitContainerStatuses) ||
		differsAsAWhole(p)
}

// differsAsAWhole reports the same for what the kubelet reports for all containers together, as of Kubernetes 1.36.
func differsAsAWhole(p *corev1.Pod) bool {
	if p.Status.Resources == nil && p.Status.AllocatedResources == nil {
		return false
	}
	spec := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
	reported := []corev1.ResourceList{p.Status.AllocatedResources, ptr.Deref(p.Status.Resources, corev1.ResourceRequirements{}).Requests}
	return slices.ContainsFunc(reported, func(list corev1.ResourceList) bool {
		for name, q := range list {
			if q.Cmp(spec[name]) != 0 {
				return true
			}
		}
		return false
	})
}

func differs(containers []corev1.Container, statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		s := &statuses[i]
		if s.Resources == nil {
			continue
		}
		for j := range containers {
			spec := containers[j].Resources.Requests
			if containers[j].Name != s.Name {
				continue
			}
			if !equality.Semantic.DeepEqual(spec, s.Resources.Requests) {
				return true
			}
			if len(s.AllocatedResources) > 0 && !equality.Semantic.DeepEqual(spec, s.AllocatedResources) {
				return true
			}
		}
	}
	return false
}
