// SPDX-License-Identifier: Apache-2.0

// Package defaulting completes a pod from its ResourceLimit: requests and
// limits, volumes, and node rules.
package defaulting

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

// DefaultContainerAnnotation names a pod's main container, as kubectl reads it.
const DefaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// Resolved is the value of a pod's annotation about the limit that was applied to it:
// namespace/name@generation.
func Resolved(limit *v1alpha1.ResourceLimit) string {
	return fmt.Sprintf("%s/%s@%d", limit.Namespace, limit.Name, limit.Generation)
}

// Apply completes a pod with what a limit has and the pod does not set itself.
// It changes the pod in place; what the pod has set stays. A pod whose annotation has
// this generation of the limit is left as it is.
//
// The warnings name what could not be done, field and value; they keep no one
// from creating the pod.
func Apply(pod *corev1.Pod, limit *v1alpha1.ResourceLimit) (warnings []string) {
	resolved := Resolved(limit)
	if len(pod.Spec.Containers) == 0 || pod.Annotations[v1alpha1.ResolvedLimitAnnotation] == resolved {
		return nil
	}
	main := mainContainer(pod)
	warnings = append(warnings, applyResources(pod, main, &limit.Spec)...)
	warnings = append(warnings, applyVolumes(pod, main, limit.Spec.Volumes)...)
	if conflict := registry.Constrain(&pod.Spec, limit); conflict != "" {
		warnings = append(warnings, conflict)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.ResolvedLimitAnnotation, resolved)
	return warnings
}

// mainContainer is the index of the container that the pod names as its
// default, else the first. What the limit has for the pod as a whole goes there.
func mainContainer(pod *corev1.Pod) int {
	name := pod.Annotations[DefaultContainerAnnotation]
	return max(0, slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }))
}

// figure is the request and the limit of one resource for the pod as a whole; nil for none.
type figure struct {
	name           corev1.ResourceName
	request, limit *resource.Quantity
}

// figures are those of a limit. Ephemeral storage gets a request and no limit:
// a container over its limit of it is evicted, so that limit stays the
// container's own.
func figures(spec *v1alpha1.ResourceLimitSpec) []figure {
	return []figure{
		{corev1.ResourceCPU, spec.CPU, cmp.Or(spec.CPULimit, spec.CPU)},
		{corev1.ResourceMemory, spec.Memory, cmp.Or(spec.MemoryLimit, spec.Memory)},
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
	r := ptr.Deref(pod.Spec.Resources, corev1.ResourceRequirements{})
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
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
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

// mountRoot is where volumes are mounted that have no path.
const mountRoot = "/volumes/"

// applyVolumes adds the volumes in the order of their names. Each becomes a
// claim that lives and dies with the pod.
func applyVolumes(pod *corev1.Pod, main int, volumes map[string]v1alpha1.VolumeLimit) (warnings []string) {
	container := &pod.Spec.Containers[main]
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		v := volumes[name]
		if slices.ContainsFunc(pod.Spec.Volumes, func(own corev1.Volume) bool { return own.Name == name }) {
			warnings = append(warnings, fmt.Sprintf("spec.volumes: the pod's own volume %q is kept, the one of %s is left out", name,
				v.Size.String()))
			continue
		}
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
		at := cmp.Or(v.MountPath, mountRoot+name)
		if !mounted && taken(container, at) {
			warnings = append(warnings, fmt.Sprintf(
				"spec.containers[%d].volumeMounts: the pod's own mount at %q is kept, volume %q of %s is left out", main, at, name, v.Size.String()))
			continue
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, claim(name, &v))
		if !mounted { // a container may have a mount of its own for it
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at})
		}
	}
	return warnings
}

// taken reports whether a container has something at a path already.
func taken(c *corev1.Container, at string) bool {
	same := func(other string) bool { return path.Clean(other) == path.Clean(at) }
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return same(m.MountPath) }) ||
		slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return same(d.DevicePath) })
}

func claim(name string, v *v1alpha1.VolumeLimit) corev1.Volume {
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: v.Size.DeepCopy()},
		},
	}
	if v.StorageClass != nil {
		spec.StorageClassName = new(*v.StorageClass)
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}},
	}}
}
