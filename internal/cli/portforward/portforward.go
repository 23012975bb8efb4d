// SPDX-License-Identifier: Apache-2.0

// Package portforward connects to ports of pods through the API server, as kubectl port-forward does.
package portforward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// maxReport bounds what is read of a kubelet's report about a connection that failed.
	maxReport = 4096
	// reportTimeout bounds the wait for the report once the connection has ended.
	reportTimeout = 2 * time.Second
)

// Pod is a pod in a namespace.
type Pod struct{ Namespace, Name string }

// Dial connects to a port of a pod. The API server authorizes it: it requires the verb create on pods/portforward.
func Dial(config *rest.Config, kube kubernetes.Interface, pod Pod, port int) (net.Conn, error) {
	u := kube.CoreV1().RESTClient().Get().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(u, config)
	if err != nil {
		return nil, err
	}
	c, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	t, err := open(c, port)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return t, nil
}

// open opens the two streams of a forwarded connection. What the kubelet reports on the first ends the second.
func open(c httpstream.Connection, port int) (*tunnel, error) {
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
	t := &tunnel{Stream: data, connection: c, ended: make(chan struct{})}
	go t.watch(failures)
	return t, nil
}

// tunnel is a forwarded connection. It has no deadlines; the calls in it have theirs.
type tunnel struct {
	httpstream.Stream
	connection httpstream.Connection
	closed     atomic.Bool

	// report is what the kubelet reported of a failure, such as that no one listens on the port. It is set before ended is
	// closed.
	report string
	ended  chan struct{}
}

// watch reads the kubelet's report.
func (t *tunnel) watch(failures io.Reader) {
	defer close(t.ended)
	report, _ := io.ReadAll(io.LimitReader(failures, maxReport)) // what was read before an error is the report
	if t.report = string(report); t.report != "" {
		_ = t.connection.Close()
	}
}

// Read reads from the pod. If the connection has failed, the error is the kubelet's report.
func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Stream.Read(p)
	return n, t.reported(n, err)
}

// Write writes to the pod. If the connection has failed, the error is the kubelet's report.
func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Stream.Write(p)
	return n, t.reported(n, err)
}

// reported returns the kubelet's report in place of an error with which nothing was read or written.
func (t *tunnel) reported(n int, err error) error {
	if err == nil || n > 0 || t.closed.Load() {
		return err
	}
	select {
	case <-t.ended:
		if t.report != "" {
			return errors.New(t.report)
		}
	case <-time.After(reportTimeout):
	}
	return err
}

// Close ends the connection.
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
