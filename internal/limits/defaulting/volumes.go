// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// mountRoot is where volumes are mounted that do not say where.
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
		at := v.MountPath
		if at == "" {
			at = mountRoot + name
		}
		if !mounted && taken(container, at) {
			warnings = append(warnings, fmt.Sprintf("spec.containers[%d].volumeMounts: the pod's own mount at %q is kept, volume %q of %s is left out", main, at, name, v.Size.String()))
			continue
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, claim(name, &v))
		if !mounted { // a container may say itself where it wants it
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
