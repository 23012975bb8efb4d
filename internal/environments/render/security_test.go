// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

func secured(s *v1alpha1.EnvironmentSecurityContext) func(*Input) {
	return specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.SecurityContext = s }))
}

func TestSecurityContexts(t *testing.T) {
	netRaw := &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}}
	runtimeDefault := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	for _, c := range []struct {
		what      string
		from      *v1alpha1.EnvironmentSecurityContext
		nonRoot   bool
		pod       corev1.PodSecurityContext
		container corev1.SecurityContext
	}{
		{
			what: "default", pod: corev1.PodSecurityContext{SeccompProfile: runtimeDefault},
			container: corev1.SecurityContext{Capabilities: netRaw},
		},
		{
			what: "the configuration rejects root", nonRoot: true, from: &v1alpha1.EnvironmentSecurityContext{RunAsUser: new(int64(0))},
			pod:       corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0)), SeccompProfile: runtimeDefault},
			container: corev1.SecurityContext{Capabilities: netRaw},
		},
		{
			what: "every field",
			from: &v1alpha1.EnvironmentSecurityContext{
				RunAsUser: new(int64(70)), RunAsGroup: new(int64(71)), FSGroup: new(int64(72)), RunAsNonRoot: true, ReadOnlyRootFilesystem: true,
				Capabilities: &v1alpha1.EnvironmentCapabilities{
					Add: []v1alpha1.EnvironmentCapability{"NET_BIND_SERVICE", "CHOWN"}, Drop: []string{"ALL"},
				},
				SeccompProfile: &v1alpha1.EnvironmentSeccompProfile{Type: v1alpha1.SeccompLocalhost, LocalhostProfile: "profiles/shop.json"},
			},
			pod: corev1.PodSecurityContext{
				RunAsUser: new(int64(70)), RunAsGroup: new(int64(71)), FSGroup: new(int64(72)), RunAsNonRoot: new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("profiles/shop.json")},
			},
			container: corev1.SecurityContext{
				ReadOnlyRootFilesystem: new(true),
				Capabilities:           &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE", "CHOWN"}, Drop: []corev1.Capability{"ALL"}},
			},
		},
		{
			what: "some capabilities dropped, and NET_RAW always",
			from: &v1alpha1.EnvironmentSecurityContext{Capabilities: &v1alpha1.EnvironmentCapabilities{Drop: []string{"MKNOD"}}},
			pod:  corev1.PodSecurityContext{SeccompProfile: runtimeDefault},
			container: corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"MKNOD", "NET_RAW"}},
			},
		},
	} {
		in := input(t, secured(c.from), func(in *Input) { in.Settings.RunAsNonRoot = c.nonRoot })
		pod := templatesOf(Render(in))[stack.Backend].Spec
		c.container.AllowPrivilegeEscalation = new(false)
		assert.Equal(t, &c.pod, pod.SecurityContext, c.what)
		assert.Equal(t, &c.container, pod.Containers[0].SecurityContext, c.what)
		other := templatesOf(Render(in))[stack.Frontend].Spec
		assert.Equal(t, netRaw, other.Containers[0].SecurityContext.Capabilities, "%s: each component has its own", c.what)
		assert.Nil(t, ptr.Deref(other.SecurityContext, corev1.PodSecurityContext{}).RunAsUser, c.what)
	}
}

func TestEphemeralVolumesAreEmptyDirectories(t *testing.T) {
	in := input(t, specOf(backend(func(c *v1alpha1.EnvironmentContainer) {
		c.Volumes = []v1alpha1.EnvironmentVolume{{Name: "tmp", MountPath: "/tmp", Ephemeral: true}, {Name: "kept", MountPath: "/kept"}}
	})))
	objects := Render(in)
	pod := templatesOf(objects)[stack.Backend].Spec
	assert.Contains(t, pod.Volumes, corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	assert.Contains(t, pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "tmp", MountPath: "/tmp"})
	claims := names[*corev1.PersistentVolumeClaim](objects)
	assert.Contains(t, claims, "backend-kept")
	assert.NotContains(t, claims, "backend-tmp")
}
