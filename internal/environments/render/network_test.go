// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

func exposed(e v1alpha1.EnvironmentExposure) func(*Input) {
	return func(in *Input) { in.Settings.Exposure = e }
}

// Every component answers by its name, on the ports of its container; one without ports by the addresses of its pods.
func TestNames(t *testing.T) {
	in := input(t, specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.Ports = nil })))
	list := Render(in)
	for name, port := range map[string]int32{stack.Frontend: 80, stack.Database: 5432, "redis-cache": 6379} {
		s := one[*corev1.Service](t, list, name).Spec
		assert.Empty(t, s.Type)
		require.Len(t, s.Ports, 1, name)
		assert.Equal(t, []int32{port, port}, []int32{s.Ports[0].Port, s.Ports[0].TargetPort.IntVal}, "not the one from outside")
		assert.Equal(t, map[string]string{v1alpha1.EnvironmentLabel: "shop-0a1b2c3d", v1alpha1.EnvironmentComponentLabel: name}, s.Selector)
	}
	s := one[*corev1.Service](t, list, stack.Backend).Spec
	assert.Equal(t, corev1.ClusterIPNone, s.ClusterIP)
	assert.Empty(t, s.Ports)

	// Its Service keeps the ports that it had: the API server does not let it become one of no cluster IP.
	in.ServicePorts = map[string][]corev1.ServicePort{stack.Backend: {{Name: "tcp-3000", Port: 3000}}, stack.Frontend: {{Port: 1}}}
	s = one[*corev1.Service](t, Render(in), stack.Backend).Spec
	assert.Empty(t, s.ClusterIP)
	assert.Equal(t, in.ServicePorts[stack.Backend], s.Ports)
	assert.EqualValues(t, 80, one[*corev1.Service](t, Render(in), stack.Frontend).Spec.Ports[0].Port, "what has ports has its own")
}

func TestExposures(t *testing.T) {
	ports := specOf(func(s *v1alpha1.EnvironmentSpec) {
		s.Stack.Frontend.Container.Ports = append(s.Stack.Frontend.Container.Ports, v1alpha1.EnvironmentPort{ContainerPort: 80, Protocol: v1alpha1.ProtocolUDP})
	})
	type port struct {
		name               string
		port, target, node int32
		protocol           corev1.Protocol
	}
	for exposure, want := range map[v1alpha1.EnvironmentExposure][]port{
		v1alpha1.ExposureLoadBalancer: {{"tcp-80", 8080, 80, 0, "TCP"}, {"udp-80", 30000, 80, 0, "UDP"}},
		v1alpha1.ExposureNodePort:     {{"tcp-80", 80, 80, 8080, "TCP"}, {"udp-80", 80, 80, 30000, "UDP"}},
	} {
		in := input(t, exposed(exposure), ports)
		s := one[*corev1.Service](t, Render(in), "frontend-outside").Spec
		assert.Equal(t, string(exposure), string(s.Type))
		var got []port
		for _, p := range s.Ports {
			got = append(got, port{p.Name, p.Port, p.TargetPort.IntVal, p.NodePort, p.Protocol})
		}
		assert.Equal(t, want, got)
		assert.Equal(t, in.selects(stack.Frontend), s.Selector)
		for _, p := range templatesOf(Render(in))[stack.Frontend].Spec.Containers[0].Ports {
			assert.Zero(t, p.HostPort)
		}
	}
	for exposure, want := range map[v1alpha1.EnvironmentExposure][]int32{v1alpha1.ExposureHostPort: {8080, 30000}, v1alpha1.ExposureNone: {0, 0}} {
		list := Render(input(t, exposed(exposure), ports))
		assert.NotContains(t, names[*corev1.Service](list), "frontend-outside")
		var got []int32
		for _, p := range templatesOf(list)[stack.Frontend].Spec.Containers[0].Ports {
			got = append(got, p.HostPort)
		}
		assert.Equal(t, want, got, exposure)
	}
	none := Render(input(t, specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.Ports = nil }))))
	assert.NotContains(t, names[*corev1.Service](none), "backend-outside", "what has no ports has none outside")
}
