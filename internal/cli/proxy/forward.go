// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/cli/portforward"
)

// newTransport returns a transport that uses HTTP/2 with the targets, as gRPC requires.
func newTransport(config *rest.Config, certificateAuthority string, targets [2]target) (*http.Transport, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	f := &forwarder{config: config, kube: kube, services: map[string]target{}}
	for _, t := range targets {
		if t.service != "" {
			f.services[net.JoinHostPort(t.url.Host, "443")] = t
		}
	}
	out := &http.Transport{DialContext: f.dial, Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	out.Protocols.SetHTTP2(true)
	out.Protocols.SetUnencryptedHTTP2(true)
	if certificateAuthority != "" {
		pem, err := os.ReadFile(filepath.Clean(certificateAuthority))
		if err != nil {
			return nil, fmt.Errorf("--services-ca: %w", err)
		}
		out.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !out.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--services-ca: %s has no certificate in PEM", certificateAuthority)
		}
	}
	return out, nil
}

// forwarder connects to the pods of Services through the API server, as kubectl port-forward does.
type forwarder struct {
	config   *rest.Config
	kube     kubernetes.Interface
	services map[string]target // by address
}

func (f *forwarder) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t, forwarded := f.services[address]
	if !forwarded {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	pod, port, err := f.podOf(ctx, t)
	if err != nil {
		return nil, err
	}
	return portforward.Dial(f.config, f.kube, portforward.Pod{Namespace: t.namespace, Name: pod}, port)
}

// podOf returns a ready pod of a Service and the number of its port.
func (f *forwarder) podOf(ctx context.Context, t target) (name string, port int, err error) {
	service, err := f.kube.CoreV1().Services(t.namespace).Get(ctx, t.service, metav1.GetOptions{})
	if err != nil {
		return "", 0, fmt.Errorf("find the service: %w", err)
	}
	pods, err := f.kube.CoreV1().Pods(t.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String(),
	})
	if err != nil {
		return "", 0, fmt.Errorf("list the pods of Service %s: %w", t.service, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && isReady(pod) {
			port, err = portOf(service, pod)
			return pod.Name, port, err
		}
	}
	return "", 0, fmt.Errorf("no pod of Service %s/%s is Ready", t.namespace, t.service)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// portOf is the port of a pod that the first port of a Service targets.
func portOf(service *corev1.Service, pod *corev1.Pod) (int, error) {
	if len(service.Spec.Ports) == 0 {
		return 0, fmt.Errorf("the Service %s has no port", service.Name)
	}
	to := service.Spec.Ports[0].TargetPort
	if to.Type == intstr.Int {
		return to.IntValue(), nil
	}
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == to.StrVal {
				return int(p.ContainerPort), nil
			}
		}
	}
	return 0, fmt.Errorf("pod %s has no port %q", pod.Name, to.StrVal)
}
