// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/environments/stack"
)

// volumesOf are the volumes of a component.
func (in *Input) volumesOf(c *stack.Component) []stack.Volume {
	return stack.Volumes(&in.Environment.Spec.Stack, c, in.Settings.HostPaths)
}

// refusedHostPaths are the directories of nodes that an environment requests and does not get, by component: those that claims
// take the place of, and those that are absent. A read-only mount gets no claim: nothing would fill it,
// and it would hide what the image has at that path.
func refusedHostPaths(spec *v1alpha1.EnvironmentSpec, allowed []string) (claims, absent []string) {
	for _, c := range stack.Components(&spec.Stack) {
		for i := range c.Container.Volumes {
			switch v := &c.Container.Volumes[i]; {
			case v.HostPath == "" || stack.AllowsPath(allowed, v.HostPath):
			case v.ReadOnly:
				absent = append(absent, fmt.Sprintf("%s %s (at %s)", c.Name, v.HostPath, v.MountPath))
			default:
				claims = append(claims, c.Name+" "+v.HostPath)
			}
		}
	}
	return claims, absent
}

// VolumesProvisioned returns whether the volumes of an environment are as it requests them, a reason in one word, and a message.
func VolumesProvisioned(spec *v1alpha1.EnvironmentSpec, allowed []string) (asked bool, reason, message string) {
	claims, absent := refusedHostPaths(spec, allowed)
	var parts []string
	if len(claims) > 0 {
		parts = append(parts, "claims take the place of "+strings.Join(claims, ", "))
	}
	if len(absent) > 0 {
		parts = append(parts, "read-only directories are not mounted: "+strings.Join(absent, ", "))
	}
	if len(parts) == 0 {
		return true, v1alpha1.ReasonConfigured, "every volume is what was requested"
	}
	return false, v1alpha1.ReasonHostPathNotAllowed, "environments.hostPaths does not allow directories of the node: " +
		strings.Join(parts, "; ")
}

// claims are those of the volumes that outlive the pod.
func (in *Input) claims(c *stack.Component) (out []runtime.Object) {
	for _, v := range in.volumesOf(c) {
		if v.Lost || v.Absent || v.HostPath != "" {
			continue
		}
		size, err := budget.ParseQuantity(cmp.Or(v.Size, in.Settings.VolumeSize))
		if err != nil {
			continue // validated, as the settings are
		}
		out = append(out, claim(in.meta(stack.ClaimOf(c.Name, v.Name), c.Name), size, in.Settings.StorageClass))
	}
	return out
}

// claim is a claim that one node at a time may use. A class of "" is the cluster's default.
func claim(meta metav1.ObjectMeta, size resource.Quantity, class string) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, ObjectMeta: meta,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	if class != "" {
		out.Spec.StorageClassName = &class
	}
	return out
}

// volumes are those of the pod.
func (in *Input) volumes(c *stack.Component) (out []corev1.Volume) {
	for _, v := range in.volumesOf(c) {
		pod := corev1.Volume{Name: v.Name}
		switch {
		case v.Absent:
			continue
		case v.HostPath != "":
			pod.HostPath = &corev1.HostPathVolumeSource{Path: v.HostPath, Type: new(corev1.HostPathDirectoryOrCreate)}
		case v.Lost:
			pod.EmptyDir = &corev1.EmptyDirVolumeSource{}
			if q, err := budget.ParseQuantity(v.Size); v.Size != "" && err == nil {
				pod.EmptyDir.SizeLimit = &q
			}
		default:
			pod.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: stack.ClaimOf(c.Name, v.Name)}
		}
		out = append(out, pod)
	}
	return out
}

// mounts are where the container sees them.
func (in *Input) mounts(c *stack.Component) (out []corev1.VolumeMount) {
	for _, v := range in.volumesOf(c) {
		if v.Absent {
			continue
		}
		out = append(out, corev1.VolumeMount{Name: v.Name, MountPath: v.MountPath, ReadOnly: v.ReadOnly})
	}
	return out
}
