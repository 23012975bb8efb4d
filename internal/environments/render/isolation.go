// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// NetworkConfigured returns whether the network is as an environment requests it, a reason in one word, and a message.
func NetworkConfigured(spec *v1alpha1.EnvironmentSpec, s *Settings) (asked bool, reason, message string) {
	n := spec.Network
	switch {
	case n == nil:
		return true, v1alpha1.ReasonConfigured, "nothing was requested"
	case n.Subnet != "" || n.Gateway != "":
		return false, v1alpha1.ReasonNotApplicable, "the cluster has one network: an environment has no subnet and no gateway of its own"
	case n.Isolated && len(s.OutsideNetworks) > 0:
		return true, v1alpha1.ReasonIsolated, "NetworkPolicies let no other pod of the cluster in, if its network enforces them, " +
			"and to the ports from outside only environments.outsideNetworks" + aboutEgress(n)
	case n.Isolated:
		return true, v1alpha1.ReasonIsolated, "NetworkPolicies let no other pod in, if the cluster's network enforces them; " +
			"and no client from outside the cluster: environments.outsideNetworks names no one" + aboutEgress(n)
	}
	return true, v1alpha1.ReasonConfigured, "the cluster's network" + aboutEgress(n)
}

// aboutEgress continues a message with the networks to which pods may connect, if they are restricted.
func aboutEgress(n *v1alpha1.EnvironmentNetwork) string {
	switch {
	case n.Egress == nil:
		return ""
	case len(n.Egress.Networks) == 0:
		return "; its pods connect to no other"
	}
	return "; its pods connect to no other but " + strings.Join(n.Egress.Networks, ", ")
}

// networkPolicies admit the environment itself, pods that are in no environment to the ports of the frontend,
// clients outside of the cluster to the published ports, and backups to the database. egressPolicies has where its own
// pods connect to.
func (in *Input) networkPolicies(components []stack.Component) []runtime.Object {
	out := in.egressPolicies()
	if !in.isolated() {
		return out
	}
	own := map[string]string{v1alpha1.EnvironmentLabel: in.Environment.Name}
	out = append(out, in.policy("isolated", own, networkingv1.NetworkPolicyIngressRule{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: own}}},
	}))
	if f := stack.Find(components, stack.Frontend); f != nil && len(f.Container.Ports) > 0 {
		// An environment has a namespace of its own, or shares one: what has the label on neither is in none.
		none := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: v1alpha1.EnvironmentLabel, Operator: metav1.LabelSelectorOpDoesNotExist,
		}}}
		out = append(out, in.policy("isolated-frontend", in.selects(stack.Frontend), networkingv1.NetworkPolicyIngressRule{
			From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: none, PodSelector: none}}, Ports: policyPorts(f),
		}))
	}
	for i := range components {
		c := &components[i]
		if len(c.Container.Ports) > 0 && (in.exposure() != v1alpha1.ExposureNone || c.Name == stack.Frontend) &&
			len(in.Settings.OutsideNetworks) > 0 {
			out = append(out, in.policy(stack.OutsideService(c.Name), in.selects(c.Name), in.fromOutside(c)))
		}
	}
	return append(out, in.backupPolicies()...)
}

func (in *Input) isolated() bool {
	n := in.Environment.Spec.Network
	return n != nil && n.Isolated
}

// policy admits to some pods what a rule admits, and nothing more.
func (in *Input) policy(name string, pods map[string]string, rule networkingv1.NetworkPolicyIngressRule) *networkingv1.NetworkPolicy {
	return in.policyOf(name, networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: pods},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{rule},
	})
}

func (in *Input) policyOf(name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: in.meta(name, ""), Spec: spec,
	}
}

// fromOutside admits clients outside of the cluster to the ports of a component.
func (in *Input) fromOutside(c *stack.Component) networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{Ports: policyPorts(c), From: blocks(in.Settings.OutsideNetworks)}
}

// nodeLocalDNS is the address at which NodeLocal DNSCache listens on every node, unless it was installed with another.
const nodeLocalDNS = "169.254.20.10/32"

// dnsPorts are the port of DNS and that at which the pods of OpenShift's DNS listen.
var dnsPorts = []int32{53, 5353}

// egressPolicies restrict the connections of the environment's pods to the environment, DNS and the networks of the spec.
func (in *Input) egressPolicies() []runtime.Object {
	n := in.Environment.Spec.Network
	if n == nil || n.Egress == nil {
		return nil
	}
	own := metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.EnvironmentLabel: in.Environment.Name}}
	dns := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: in.Settings.DNSNamespace}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: nodeLocalDNS}},
	}}
	for _, port := range dnsPorts {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
			dns.Ports = append(dns.Ports, networkingv1.NetworkPolicyPort{Protocol: new(protocol), Port: new(intstr.FromInt32(port))})
		}
	}
	rules := []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{PodSelector: &own}}}, dns}
	if len(n.Egress.Networks) > 0 { // a rule without peers would allow all
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: blocks(n.Egress.Networks)})
	}
	return []runtime.Object{in.policyOf("egress", networkingv1.NetworkPolicySpec{
		PodSelector: own, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: rules,
	})}
}

// blocks are the peers of networks.
func blocks(networks []string) (peers []networkingv1.NetworkPolicyPeer) {
	for _, network := range networks {
		peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: network}})
	}
	return peers
}

func policyPorts(c *stack.Component) (ports []networkingv1.NetworkPolicyPort) {
	for i := range c.Container.Ports {
		p := &c.Container.Ports[i]
		ports = append(ports, networkingv1.NetworkPolicyPort{
			Protocol: new(corev1.Protocol(stack.ProtocolOf(p))), Port: new(intstr.FromInt32(p.ContainerPort)),
		})
	}
	return ports
}
