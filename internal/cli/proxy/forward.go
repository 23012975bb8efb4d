// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
)

// newTransport returns a transport that speaks HTTP/2 with the targets, as gRPC requires.
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
	u := f.kube.CoreV1().RESTClient().Get().Resource("pods").Namespace(t.namespace).Name(pod).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, f.config)
	if err != nil {
		return nil, err
	}
	c, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("forward a port to pod %s/%s: %w", t.namespace, pod, err)
	}
	s, err := open(c, port)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("forward a port to pod %s/%s: %w", t.namespace, pod, err)
	}
	return &tunnel{Stream: s, connection: c}, nil
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

// open opens the two streams of a forwarded connection. What the kubelet reports on the first ends the second.
func open(c httpstream.Connection, port int) (httpstream.Stream, error) {
	h := http.Header{}
	h.Set(corev1.PortHeader, strconv.Itoa(port))
	h.Set(corev1.PortForwardRequestIDHeader, "0")
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := c.CreateStream(h)
	if err != nil {
		return nil, err
	}
	if err := failures.Close(); err != nil { // nothing is written to it
		return nil, err
	}
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := c.CreateStream(h)
	if err != nil {
		return nil, err
	}
	go func() {
		if n, _ := failures.Read(make([]byte, 1)); n > 0 {
			_ = c.Close()
		}
	}()
	return data, nil
}

// tunnel is a forwarded connection. It has no deadlines; the calls in it have theirs.
type tunnel struct {
	httpstream.Stream
	connection httpstream.Connection
	closed     atomic.Bool
}

func (t *tunnel) Close() error {
	if t.closed.Swap(true) {
		return net.ErrClosed
	}
	return errors.Join(t.Reset(), t.connection.Close())
}

func (*tunnel) LocalAddr() net.Addr              { return address{} }
func (*tunnel) RemoteAddr() net.Addr             { return address{} }
func (*tunnel) SetDeadline(time.Time) error      { return nil }
func (*tunnel) SetReadDeadline(time.Time) error  { return nil }
func (*tunnel) SetWriteDeadline(time.Time) error { return nil }

// address is that of either end of a tunnel.
type address struct{}

func (address) Network() string { return "portforward" }
func (address) String() string  { return "portforward" }
