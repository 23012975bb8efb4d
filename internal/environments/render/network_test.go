// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/apis/v1alpha1"
)

func exposed(e Exposure) func(*Input) { return func(in *Input) { in.Settings.Exposure = e } }

// Every component answers by its name, on the ports of its container; one without ports by the addresses of its pods.
func TestNames(t *testing.T) {
	in := input(t, specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.Ports = nil })))
	list := Render(in)
	for name, port := range map[string]int32{Frontend: 80, Database: 5432, "redis-cache": 6379} {
		s := one[*corev1.Service](t, list, name).Spec
		assert.Empty(t, s.Type)
		require.Len(t, s.Ports, 1, name)
		assert.Equal(t, []int32{port, port}, []int32{s.Ports[0].Port, s.Ports[0].TargetPort.IntVal}, "not the one from outside")
		assert.Equal(t, map[string]string{v1alpha1.EnvironmentLabel: "shop-0a1b2c3d", v1alpha1.EnvironmentComponentLabel: name}, s.Selector)
	}
	s := one[*corev1.Service](t, list, Backend).Spec
	assert.Equal(t, corev1.ClusterIPNone, s.ClusterIP)
	assert.Empty(t, s.Ports)

	// Its Service keeps the ports that it had: the API server does not let it become one of no cluster IP.
	in.ServicePorts = map[string][]corev1.ServicePort{Backend: {{Name: "tcp-3000", Port: 3000}}, Frontend: {{Port: 1}}}
	s = one[*corev1.Service](t, Render(in), Backend).Spec
	assert.Empty(t, s.ClusterIP)
	assert.Equal(t, in.ServicePorts[Backend], s.Ports)
	assert.EqualValues(t, 80, one[*corev1.Service](t, Render(in), Frontend).Spec.Ports[0].Port, "what has ports has its own")
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
	for exposure, want := range map[Exposure][]port{
		ExposeLoadBalancer: {{"tcp-80", 8080, 80, 0, "TCP"}, {"udp-80", 30000, 80, 0, "UDP"}},
		ExposeNodePort:     {{"tcp-80", 80, 80, 8080, "TCP"}, {"udp-80", 80, 80, 30000, "UDP"}},
	} {
		in := input(t, exposed(exposure), ports)
		s := one[*corev1.Service](t, Render(in), "frontend-outside").Spec
		assert.Equal(t, string(exposure), string(s.Type))
		var got []port
		for _, p := range s.Ports {
			got = append(got, port{p.Name, p.Port, p.TargetPort.IntVal, p.NodePort, p.Protocol})
		}
		assert.Equal(t, want, got)
		assert.Equal(t, in.selects(Frontend), s.Selector)
		for _, p := range templatesOf(Render(in))[Frontend].Spec.Containers[0].Ports {
			assert.Zero(t, p.HostPort)
		}
	}
	for exposure, want := range map[Exposure][]int32{ExposeHostPort: {8080, 30000}, ExposeNone: {0, 0}} {
		list := Render(input(t, exposed(exposure), ports))
		assert.NotContains(t, names[*corev1.Service](list), "frontend-outside")
		var got []int32
		for _, p := range templatesOf(list)[Frontend].Spec.Containers[0].Ports {
			got = append(got, p.HostPort)
		}
		assert.Equal(t, want, got, exposure)
	}
	none := Render(input(t, specOf(backend(func(c *v1alpha1.EnvironmentContainer) { c.Ports = nil }))))
	assert.NotContains(t, names[*corev1.Service](none), "backend-outside", "what has no ports has none outside")
}

// Who comes in to whom, by the labels of the pod and of its namespace.
func TestIsolated(t *testing.T) {
	assert.Empty(t, of[*networkingv1.NetworkPolicy](Render(input(t))))
	assert.Empty(t, of[*networkingv1.NetworkPolicy](Render(input(t, specOf(func(s *v1alpha1.EnvironmentSpec) {
		s.Network = &v1alpha1.EnvironmentNetwork{Name: "x", Subnet: "10.0.0.0/8"}
	})))))

	in := input(t, specOf(func(s *v1alpha1.EnvironmentSpec) { s.Network = &v1alpha1.EnvironmentNetwork{Isolated: true} }))
	policies := of[*networkingv1.NetworkPolicy](Render(in))
	own, other, nobody := map[string]string{v1alpha1.EnvironmentLabel: in.Environment.Name}, map[string]string{v1alpha1.EnvironmentLabel: "other"}, map[string]string{}
	for _, c := range []struct {
		what            string
		to              string
		port            int32
		from, namespace map[string]string
		same            bool
		want            bool
	}{
		{"its own, to the database", Database, 5432, own, own, true, true},
		{"its own, to the frontend", Frontend, 9999, own, own, true, true},
		{"another environment, to the database", Database, 5432, other, other, false, false},
		{"another environment, to the frontend", Frontend, 80, other, other, false, false},
		{"another environment that shares a namespace", Frontend, 80, other, nobody, false, false},
		{"another one in the namespace of an environment", Frontend, 80, nobody, other, false, false},
		{"the cluster's own, to the frontend", Frontend, 80, nobody, nobody, false, true},
		{"the cluster's own, to another port of the frontend", Frontend, 9999, nobody, nobody, false, false},
		{"the cluster's own, to the backend", Backend, 3000, nobody, nobody, false, false},
		{"somebody else in its namespace, to the backend", Backend, 3000, nobody, own, true, false},
		{"one of the same id elsewhere", Backend, 3000, own, other, false, false},
	} {
		to := templatesOf(Render(in))[c.to].Labels
		assert.Equal(t, c.want, lets(t, policies, to, c.port, c.from, c.namespace, c.same), c.what)
	}

	list := Render(input(t, specOf(func(s *v1alpha1.EnvironmentSpec) {
		s.Network, s.Stack.Frontend = &v1alpha1.EnvironmentNetwork{Isolated: true}, nil
	})))
	assert.Equal(t, []string{"isolated", "isolated-backups"}, names[*networkingv1.NetworkPolicy](list))
}

// An isolated environment is reached from outside where that is said, at the ports that are published.
func TestIsolatedAndReachedFromOutside(t *testing.T) {
	networks := []string{"10.1.0.0/16", "2001:db8::/32"}
	isolated := specOf(func(s *v1alpha1.EnvironmentSpec) { s.Network = &v1alpha1.EnvironmentNetwork{Isolated: true} })
	for exposure, want := range map[Exposure][]string{
		ExposeLoadBalancer: {"backend-outside", "database-outside", "frontend-outside", "redis-cache-outside"},
		ExposeHostPort:     {"backend-outside", "database-outside", "frontend-outside", "redis-cache-outside"},
		ExposeNone:         {"frontend-outside"}, // of Ingresses, whose controllers may have the addresses of nodes
	} {
		in := input(t, isolated, func(in *Input) { in.Settings.Exposure, in.Settings.OutsideNetworks = exposure, networks })
		var got []string
		for _, p := range of[*networkingv1.NetworkPolicy](Render(in)) {
			component, is := strings.CutSuffix(p.Name, "-outside")
			if !is {
				continue
			}
			got = append(got, p.Name)
			assert.Equal(t, in.selects(component), p.Spec.PodSelector.MatchLabels)
			require.Len(t, p.Spec.Ingress, 1)
			assert.Equal(t, []networkingv1.NetworkPolicyPeer{
				{IPBlock: &networkingv1.IPBlock{CIDR: networks[0]}}, {IPBlock: &networkingv1.IPBlock{CIDR: networks[1]}},
			}, p.Spec.Ingress[0].From)
			c := find(Components(&in.Environment.Spec.Stack), component)
			require.Len(t, p.Spec.Ingress[0].Ports, len(c.Container.Ports), "no port but its own")
			for i, port := range p.Spec.Ingress[0].Ports {
				assert.Equal(t, c.Container.Ports[i].ContainerPort, port.Port.IntVal)
			}
		}
		assert.ElementsMatch(t, want, got, exposure)
	}
	open := input(t, func(in *Input) { in.Settings.OutsideNetworks = networks })
	assert.Empty(t, of[*networkingv1.NetworkPolicy](Render(open)), "nobody is kept out of it")
}

func TestNetworkConfigured(t *testing.T) {
	for _, c := range []struct {
		network *v1alpha1.EnvironmentNetwork
		outside []string
		asked   bool
		reason  string
		says    string
	}{
		{nil, nil, true, "Configured", "nothing was requested"},
		{&v1alpha1.EnvironmentNetwork{Name: "x"}, nil, true, "Configured", "the cluster's network"},
		{&v1alpha1.EnvironmentNetwork{Subnet: "172.20.0.0/16", Isolated: true}, nil, false, "NotApplicable", "no subnet"},
		{&v1alpha1.EnvironmentNetwork{Gateway: "172.20.0.1"}, nil, false, "NotApplicable", "no gateway"},
		{&v1alpha1.EnvironmentNetwork{Isolated: true}, nil, true, "Isolated", "and no client from outside the cluster"},
		{&v1alpha1.EnvironmentNetwork{Isolated: true}, []string{"10.1.0.0/16"}, true, "Isolated", "from outside only environments.outsideNetworks"},
	} {
		asked, reason, message := NetworkConfigured(&v1alpha1.EnvironmentSpec{Network: c.network}, &Settings{OutsideNetworks: c.outside})
		assert.Equal(t, c.asked, asked, "%+v", c)
		assert.Equal(t, c.reason, reason, "%+v", c)
		assert.Contains(t, message, c.says)
	}
}

// lets says whether policies let someone in, as a network does that enforces them.
func lets(t *testing.T, policies []*networkingv1.NetworkPolicy, to map[string]string, port int32, from, namespace map[string]string, same bool) bool {
	t.Helper()
	selects := func(s *metav1.LabelSelector, l map[string]string) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		require.NoError(t, err)
		return selector.Matches(labels.Set(l))
	}
	restricted := false
	for _, p := range policies {
		if !selects(&p.Spec.PodSelector, to) {
			continue
		}
		restricted = true
		assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, p.Spec.PolicyTypes)
		for _, rule := range p.Spec.Ingress {
			open := len(rule.Ports) == 0
			for _, r := range rule.Ports {
				open = open || r.Port.IntVal == port && *r.Protocol == corev1.ProtocolTCP
			}
			for _, peer := range rule.From {
				if peer.IPBlock != nil {
					continue // whoever is checked is a pod
				}
				in := same
				if peer.NamespaceSelector != nil {
					in = selects(peer.NamespaceSelector, namespace)
				}
				if open && in && (peer.PodSelector == nil || selects(peer.PodSelector, from)) {
					return true
				}
			}
		}
	}
	return !restricted
}
