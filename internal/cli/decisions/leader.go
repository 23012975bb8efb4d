// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/cli/portforward"
	"berth.dev/berth/internal/cli/printers"
)

const (
	// defaultPort is that of the manifests.
	defaultPort = 10260
	bindFlag    = "--decisions-bind-address="
	// defaultLease is how long a lease lasts that does not have it.
	defaultLease = 15
)

// leaders finds the leading scheduler.
type leaders struct {
	kube  kubernetes.Interface
	lease types.NamespacedName
	// namespace is that of the schedulers' pods.
	namespace string
	now       time.Time
}

// leader returns the endpoint of the leader, to which connections are forwarded.
func (l *leaders) leader(ctx context.Context, config *rest.Config) (endpoint, error) {
	name, err := l.holder(ctx)
	if err != nil {
		return endpoint{}, err
	}
	port, err := l.port(ctx, name)
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{
		name: fmt.Sprintf("port %d of pod %s/%s", port, l.namespace, name),
		host: net.JoinHostPort("localhost", strconv.Itoa(port)),
		dial: func(context.Context) (net.Conn, error) {
			return portforward.Dial(config, l.kube, portforward.Pod{Namespace: l.namespace, Name: name}, port)
		},
	}, nil
}

// holder returns the name of the pod that holds the lease.
func (l *leaders) holder(ctx context.Context) (string, error) {
	if l.lease.Name == "" {
		return "", errors.New("the scheduler's configuration has no leader election, so its pod is not known: use --scheduler-address")
	}
	lease, err := l.kube.CoordinationV1().Leases(l.lease.Namespace).Get(ctx, l.lease.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("no berth-scheduler leads: lease %s does not exist", l.lease)
	}
	if err != nil {
		return "", fmt.Errorf("find the leading berth-scheduler, or name it with --scheduler-address: %w", err)
	}
	holder, renewed := ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, defaultLease)) * time.Second
	switch {
	case holder == "":
		return "", fmt.Errorf("no berth-scheduler leads: lease %s has no holder", l.lease)
	case l.now.Sub(renewed) > lasts:
		return "", fmt.Errorf("no berth-scheduler leads: lease %s of %s was last renewed %s ago", l.lease, holder, printers.Age(l.now, renewed))
	}
	// The identity of a candidate is its host name, which is the name of its pod, and a unique suffix.
	if end := strings.LastIndexByte(holder, '_'); end > 0 {
		holder = holder[:end]
	}
	return holder, nil
}

// port returns the port at which a pod serves decisions. If the pod may not be read, it is taken to be that of the manifests.
func (l *leaders) port(ctx context.Context, name string) (int, error) {
	pod, err := l.kube.CoreV1().Pods(l.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("the leading berth-scheduler runs on %s, which is not a pod of namespace %s: use --scheduler-address, or "+
			"--system-namespace if Berth is installed in another namespace", name, l.namespace)
	}
	if err != nil {
		return defaultPort, nil //nolint:nilerr // forwarding requires another right
	}
	return portOf(pod), nil
}

// portOf is the port in the arguments of a pod.
func portOf(pod *corev1.Pod) int {
	for i := range pod.Spec.Containers {
		for _, arg := range pod.Spec.Containers[i].Args {
			address, found := strings.CutPrefix(arg, bindFlag)
			if !found {
				continue
			}
			if _, number, err := net.SplitHostPort(address); err == nil {
				if port, err := strconv.Atoi(number); err == nil {
					return port
				}
			}
		}
	}
	return defaultPort
}
