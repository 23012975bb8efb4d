// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/apis/v1alpha1"
)

// figure is what a limit says of one resource for the pod as a whole; nil for nothing.
type figure struct {
	name           corev1.ResourceName
	request, limit *resource.Quantity
}

// figures are those of a limit. Ephemeral storage is requested and not limited:
// a container over its limit of it is evicted, so that limit stays the
// container's own.
func figures(spec *v1alpha1.ResourceLimitSpec) []figure {
	or := func(a, b *resource.Quantity) *resource.Quantity {
		if a != nil {
			return a
		}
		return b
	}
	return []figure{
		{corev1.ResourceCPU, spec.CPU, or(spec.CPULimit, spec.CPU)},
		{corev1.ResourceMemory, spec.Memory, or(spec.MemoryLimit, spec.Memory)},
		{corev1.ResourceEphemeralStorage, spec.EphemeralStorage, nil},
	}
}

// applyResources gives the main container what the other containers and the
// overhead leave of the limit's figures.
func applyResources(pod *corev1.Pod, main int, spec *v1alpha1.ResourceLimitSpec) (warnings []string) {
	own := &pod.Spec.Containers[main].Resources
	for _, f := range figures(spec) {
		if setByPod(pod, f.name) {
			continue
		}
		field := fmt.Sprintf("spec.containers[%d].resources", main)
		_, hasRequest := own.Requests[f.name]
		_, hasLimit := own.Limits[f.name]
		if f.limit != nil && !hasLimit {
			if left := rest(f.limit, others(pod, main, f.name, limitsOf)); !fillLimit(own, f.name, left) {
				warnings = append(warnings, fmt.Sprintf("%s.limits.%s is left unset: of %s the other containers leave %s", field, f.name,
					f.limit, left.String()))
			}
		}
		if f.request != nil && !hasRequest {
			left := rest(f.request, others(pod, main, f.name, requestsOf))
			if most, limited := own.Limits[f.name]; limited && left.Cmp(most) > 0 {
				left = most.DeepCopy() // a request above the limit is refused
			}
			own.Requests = with(own.Requests, f.name, left)
		}
	}
	return warnings
}

// setByPod reports whether the pod sets a resource for all its containers
// together. Then that counts, and the containers share it as they like.
func setByPod(pod *corev1.Pod, name corev1.ResourceName) bool {
	r := pod.Spec.Resources
	if r == nil {
		return false
	}
	_, request := r.Requests[name]
	_, limit := r.Limits[name]
	return request || limit
}

// fillLimit sets a limit unless it would be 0, which means none, or below what
// the container requests.
func fillLimit(own *corev1.ResourceRequirements, name corev1.ResourceName, left resource.Quantity) bool {
	if request, requested := own.Requests[name]; left.IsZero() || requested && left.Cmp(request) < 0 {
		return false
	}
	own.Limits = with(own.Limits, name, left)
	return true
}

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

// others is what is taken in addition to the main container while it runs: by the
// other containers, the sidecars, and the overhead of the pod's RuntimeClass.
func others(pod *corev1.Pod, main int, name corev1.ResourceName,
	of func(*corev1.ResourceRequirements) corev1.ResourceList,
) resource.Quantity {
	taken := pod.Spec.Overhead[name].DeepCopy()
	add := func(c *corev1.Container) {
		if q, set := of(&c.Resources)[name]; set {
			taken.Add(q)
		}
	}
	for i := range pod.Spec.Containers {
		if i != main {
			add(&pod.Spec.Containers[i])
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return taken
}

// rest is what is left of a whole, never below 0.
func rest(whole *resource.Quantity, taken resource.Quantity) resource.Quantity {
	left := whole.DeepCopy()
	if left.Sub(taken); left.Sign() < 0 {
		return resource.Quantity{Format: whole.Format}
	}
	return left
}

func with(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[name] = q
	return list
}
