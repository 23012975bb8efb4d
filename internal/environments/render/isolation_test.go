// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// Which pods are admitted to which, by the labels of the pod and of its namespace.
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
		{"its own, to the database", stack.Database, 5432, own, own, true, true},
		{"its own, to the frontend", stack.Frontend, 9999, own, own, true, true},
		{"another environment, to the database", stack.Database, 5432, other, other, false, false},
		{"another environment, to the frontend", stack.Frontend, 80, other, other, false, false},
		{"another environment that shares a namespace", stack.Frontend, 80, other, nobody, false, false},
		{"another one in the namespace of an environment", stack.Frontend, 80, nobody, other, false, false},
		{"the cluster's own, to the frontend", stack.Frontend, 80, nobody, nobody, false, true},
		{"the cluster's own, to another port of the frontend", stack.Frontend, 9999, nobody, nobody, false, false},
		{"the cluster's own, to the backend", stack.Backend, 3000, nobody, nobody, false, false},
		{"another pod in its namespace, to the backend", stack.Backend, 3000, nobody, own, true, false},
		{"one of the same id elsewhere", stack.Backend, 3000, own, other, false, false},
	} {
		to := templatesOf(Render(in))[c.to].Labels
		assert.Equal(t, c.want, lets(t, policies, to, c.port, c.from, c.namespace, c.same), c.what)
	}

	list := Render(input(t, specOf(func(s *v1alpha1.EnvironmentSpec) {
		s.Network, s.Stack.Frontend = &v1alpha1.EnvironmentNetwork{Isolated: true}, nil
	})))
	assert.Equal(t, []string{"isolated", "isolated-backups"}, names[*networkingv1.NetworkPolicy](list))
}

// An isolated environment is reached from outside where its spec allows it, at the ports that are published.
func TestIsolatedAndReachedFromOutside(t *testing.T) {
	networks := []string{"10.1.0.0/16", "2001:db8::/32"}
	isolated := specOf(func(s *v1alpha1.EnvironmentSpec) { s.Network = &v1alpha1.EnvironmentNetwork{Isolated: true} })
	for exposure, want := range map[v1alpha1.EnvironmentExposure][]string{
		v1alpha1.ExposureLoadBalancer: {"backend-outside", "database-outside", "frontend-outside", "redis-cache-outside"},
		v1alpha1.ExposureHostPort:     {"backend-outside", "database-outside", "frontend-outside", "redis-cache-outside"},
		v1alpha1.ExposureNone:         {"frontend-outside"}, // of Ingresses, whose controllers may have the addresses of nodes
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
			c := stack.Find(stack.Components(&in.Environment.Spec.Stack), component)
			require.Len(t, p.Spec.Ingress[0].Ports, len(c.Container.Ports), "no port but its own")
			for i, port := range p.Spec.Ingress[0].Ports {
				assert.Equal(t, c.Container.Ports[i].ContainerPort, port.Port.IntVal)
			}
		}
		assert.ElementsMatch(t, want, got, exposure)
	}
	open := input(t, func(in *Input) { in.Settings.OutsideNetworks = networks })
	assert.Empty(t, of[*networkingv1.NetworkPolicy](Render(open)), "no client is kept out of it")
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
		{&v1alpha1.EnvironmentNetwork{Egress: &v1alpha1.EnvironmentEgress{}}, nil, true, "Configured", "its pods connect to no other"},
		{&v1alpha1.EnvironmentNetwork{Isolated: true, Egress: &v1alpha1.EnvironmentEgress{Networks: []string{"10.1.0.0/16"}}}, nil, true, "Isolated", "no other but 10.1.0.0/16"},
	} {
		asked, reason, message := NetworkConfigured(&v1alpha1.EnvironmentSpec{Network: c.network}, &Settings{OutsideNetworks: c.outside})
		assert.Equal(t, c.asked, asked, "%+v", c)
		assert.Equal(t, c.reason, reason, "%+v", c)
		assert.Contains(t, message, c.says)
	}
}

// lets reports whether policies admit a peer, as a network does that enforces them.
func lets(t *testing.T, policies []*networkingv1.NetworkPolicy, to map[string]string, port int32, from, namespace map[string]string, same bool) bool {
	t.Helper()
	restricted := false
	for _, p := range policies {
		if !matches(t, &p.Spec.PodSelector, to) {
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
					in = matches(t, peer.NamespaceSelector, namespace)
				}
				if open && in && (peer.PodSelector == nil || matches(t, peer.PodSelector, from)) {
					return true
				}
			}
		}
	}
	return !restricted
}

// To whom the pods of an environment connect.
func TestEgress(t *testing.T) {
	in := input(t, specOf(func(s *v1alpha1.EnvironmentSpec) {
		s.Network = &v1alpha1.EnvironmentNetwork{Egress: &v1alpha1.EnvironmentEgress{Networks: []string{"10.1.0.0/16", "2001:db8::/32"}}}
	}), func(in *Input) { in.Settings.DNSNamespace = "kube-system" })
	policies := of[*networkingv1.NetworkPolicy](Render(in))
	require.Len(t, policies, 1)
	p := policies[0]
	assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, p.Spec.PolicyTypes, "who connects to it is not restricted")
	for component, template := range templatesOf(Render(in)) {
		assert.Equal(t, template.Labels[v1alpha1.EnvironmentLabel], p.Spec.PodSelector.MatchLabels[v1alpha1.EnvironmentLabel], component)
	}
	own, system := map[string]string{v1alpha1.EnvironmentLabel: in.Environment.Name}, map[string]string{corev1.LabelMetadataName: "kube-system"}
	for _, c := range []struct {
		what      string
		pod       map[string]string
		namespace map[string]string
		same      bool
		address   string
		port      int32
		protocol  corev1.Protocol
		reached   bool
	}{
		{"its own, any port", own, own, true, "10.244.0.1", 5432, corev1.ProtocolTCP, true},
		{"one of the same id elsewhere", own, map[string]string{}, false, "10.244.0.1", 5432, corev1.ProtocolTCP, false},
		{"DNS", map[string]string{}, system, false, "10.244.0.1", 53, corev1.ProtocolUDP, true},
		{"DNS over TCP", map[string]string{}, system, false, "10.244.0.1", 53, corev1.ProtocolTCP, true},
		{"another port of the DNS server", map[string]string{}, system, false, "10.244.0.1", 8080, corev1.ProtocolTCP, false},
		{"port 53 of another pod", map[string]string{}, map[string]string{}, false, "10.244.0.1", 53, corev1.ProtocolUDP, false},
		{"the cache of DNS on its node", nil, nil, false, "169.254.20.10", 53, corev1.ProtocolUDP, true},
		{"the metadata of the cloud", nil, nil, false, "169.254.169.254", 80, corev1.ProtocolTCP, false},
		{"a network that is allowed", nil, nil, false, "10.1.2.3", 443, corev1.ProtocolTCP, true},
		{"another one of IPv6", nil, nil, false, "2001:db8::1", 443, corev1.ProtocolTCP, true},
		{"the rest of the world", nil, nil, false, "1.1.1.1", 443, corev1.ProtocolTCP, false},
	} {
		got := connects(t, p.Spec.Egress, c.pod, c.namespace, c.same, netip.MustParseAddr(c.address), c.port, c.protocol)
		assert.Equal(t, c.reached, got, c.what)
	}

	closed := of[*networkingv1.NetworkPolicy](Render(input(t, specOf(func(s *v1alpha1.EnvironmentSpec) {
		s.Network = &v1alpha1.EnvironmentNetwork{Egress: &v1alpha1.EnvironmentEgress{}}
	}))))
	require.Len(t, closed, 1)
	for _, address := range []string{"10.1.2.3", "1.1.1.1"} {
		assert.False(t, connects(t, closed[0].Spec.Egress, nil, nil, false, netip.MustParseAddr(address), 443, corev1.ProtocolTCP), address)
	}
}

// connects evaluates rules for a pod, whose labels are nil if the address is none of a pod.
func connects(t *testing.T, rules []networkingv1.NetworkPolicyEgressRule, pod, namespace map[string]string, same bool, address netip.Addr,
	port int32, protocol corev1.Protocol,
) bool {
	t.Helper()
	for _, rule := range rules {
		open := len(rule.Ports) == 0
		for _, r := range rule.Ports {
			open = open || r.Port.IntVal == port && *r.Protocol == protocol
		}
		if !open {
			continue
		}
		if len(rule.To) == 0 {
			return true
		}
		for _, peer := range rule.To {
			switch {
			case peer.IPBlock != nil:
				if netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(address) {
					return true
				}
			case pod == nil:
			case peer.NamespaceSelector == nil && same, peer.NamespaceSelector != nil && matches(t, peer.NamespaceSelector, namespace):
				if peer.PodSelector == nil || matches(t, peer.PodSelector, pod) {
					return true
				}
			}
		}
	}
	return false
}

func matches(t *testing.T, s *metav1.LabelSelector, l map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	require.NoError(t, err)
	return selector.Matches(labels.Set(l))
}
