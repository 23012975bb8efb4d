// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// securityContexts returns the security contexts of the pod and the container of a component.
func (in *Input) securityContexts(c *stack.Component) (*corev1.PodSecurityContext, *corev1.SecurityContext) {
	from := ptr.Deref(c.Container.SecurityContext, v1alpha1.EnvironmentSecurityContext{})
	pod := &corev1.PodSecurityContext{
		RunAsUser: from.RunAsUser, RunAsGroup: from.RunAsGroup, FSGroup: from.FSGroup, SeccompProfile: seccomp(from.SeccompProfile),
	}
	if in.Settings.RunAsNonRoot || from.RunAsNonRoot {
		pod.RunAsNonRoot = new(true)
	}
	container := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: capabilities(from.Capabilities)}
	if from.ReadOnlyRootFilesystem {
		container.ReadOnlyRootFilesystem = new(true)
	}
	return pod, container
}

// capabilities always drops NET_RAW, with which a container can forge the packets of others.
func capabilities(from *v1alpha1.EnvironmentCapabilities) *corev1.Capabilities {
	const all, netRaw = "ALL", "NET_RAW"
	out := &corev1.Capabilities{}
	if from != nil {
		for _, name := range from.Add {
			out.Add = append(out.Add, corev1.Capability(name))
		}
		for _, name := range from.Drop {
			out.Drop = append(out.Drop, corev1.Capability(name))
		}
	}
	if !slices.Contains(out.Drop, all) && !slices.Contains(out.Drop, netRaw) {
		out.Drop = append(out.Drop, netRaw)
	}
	return out
}

func seccomp(from *v1alpha1.EnvironmentSeccompProfile) *corev1.SeccompProfile {
	if from == nil || from.Type != v1alpha1.SeccompLocalhost {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new(from.LocalhostProfile)}
}
