// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// TLSSecret is the name of the Secret with the certificate of the frontend's domains, for an Ingress.
const TLSSecret = "frontend-tls" //nolint:gosec // a name

// services are the Service by whose name the component is found, that of its pods if they have names of their own, and that
// of its ports from outside.
func (in *Input) services(c *stack.Component) []runtime.Object {
	inside := in.service(c.Name, c)
	for i := range c.Container.Ports {
		inside.Spec.Ports = append(inside.Spec.Ports, servicePort(&c.Container.Ports[i]))
	}
	if len(inside.Spec.Ports) == 0 {
		// The API server does not let a Service lose its cluster IP, nor its last port.
		inside.Spec.Ports = in.ServicePorts[c.Name]
	}
	if len(inside.Spec.Ports) == 0 {
		inside.Spec.ClusterIP = corev1.ClusterIPNone // its name is that of the pods then
	}
	out := []runtime.Object{inside}
	if c.Workload == stack.OfStatefulSet {
		pods := in.service(stack.HeadlessService(c.Name), c)
		pods.Spec.ClusterIP, pods.Spec.PublishNotReadyAddresses = corev1.ClusterIPNone, true
		out = append(out, pods)
	}
	if s := in.outside(c); s != nil {
		out = append(out, s)
	}
	return out
}

// exposure is how the ports of the environment are exposed.
func (in *Input) exposure() v1alpha1.EnvironmentExposure {
	return stack.ExposureOf(in.Environment, in.Settings.Exposure)
}

func (in *Input) service(name string, c *stack.Component) *corev1.Service {
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: in.meta(name, c.Name),
		Spec: corev1.ServiceSpec{Selector: in.selects(c.Name)},
	}
}

func servicePort(p *v1alpha1.EnvironmentPort) corev1.ServicePort {
	return corev1.ServicePort{
		Name: portName(p), Port: p.ContainerPort, TargetPort: intstr.FromInt32(p.ContainerPort),
		Protocol: corev1.Protocol(stack.ProtocolOf(p)),
	}
}

// outside is the Service of a component's ports from outside, nil if it needs none.
func (in *Input) outside(c *stack.Component) *corev1.Service {
	exposure := in.exposure()
	if len(c.Container.Ports) == 0 || exposure != v1alpha1.ExposureLoadBalancer && exposure != v1alpha1.ExposureNodePort {
		return nil
	}
	s := in.service(stack.OutsideService(c.Name), c)
	s.Spec.Type = corev1.ServiceType(exposure)
	for i := range c.Container.Ports {
		p := &c.Container.Ports[i]
		port := servicePort(p)
		if host := in.hostPort(c.Name, p); exposure == v1alpha1.ExposureNodePort {
			port.NodePort = host
		} else {
			port.Port = host
		}
		s.Spec.Ports = append(s.Spec.Ports, port)
	}
	return s
}

// domains leads the domains to the frontend: by HTTPRoutes where there is a Gateway for them, else by an Ingress.
func (in *Input) domains() []runtime.Object {
	f := in.Environment.Spec.Stack.Frontend
	names, _ := in.Settings.Domains.Split(in.Environment.Namespace, f)
	switch {
	case len(names) == 0:
		return nil
	case in.Settings.Gateway.Name != "":
		return in.routes(f, names)
	}
	return []runtime.Object{in.ingress(f, names)}
}

// domainPort is the port of the frontend that domains lead to: the first that is TCP.
func domainPort(f *v1alpha1.FrontendComponent) int32 {
	for i := range f.Container.Ports {
		if p := &f.Container.Ports[i]; stack.ProtocolOf(p) == v1alpha1.ProtocolTCP {
			return p.ContainerPort
		}
	}
	return 0
}

func (in *Input) ingress(f *v1alpha1.FrontendComponent, names []string) *networkingv1.Ingress {
	to := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: stack.Frontend, Port: networkingv1.ServiceBackendPort{Number: domainPort(f)},
	}}
	i := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: in.meta(stack.Frontend, stack.Frontend),
	}
	if class := in.Settings.IngressClass; class != "" {
		i.Spec.IngressClassName = &class
	}
	for _, domain := range names {
		i.Spec.Rules = append(i.Spec.Rules, networkingv1.IngressRule{Host: domain, IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: to,
			}}},
		}})
	}
	if f.TLSEnabled {
		i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: names, SecretName: TLSSecret}}
	}
	return i
}
