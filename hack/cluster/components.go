// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"embed"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed audit-policy.yaml stages
var files embed.FS

var serviceIP = net.IPv4(10, 96, 0, 1)

// writeComponentFiles writes the audit policy and KWOK's configuration with its stages.
func (c *Cluster) writeComponentFiles() error { return os.CopyFS(c.dir, files) }

// args returns a component's command line.
func (c *Cluster) args(name string) []string {
	switch name {
	case Etcd:
		return c.etcdArgs()
	case APIServer:
		return slices.Concat(c.apiserverArgs(), c.featureGates("--runtime-config=api/all=true"), c.opts.APIServerArgs)
	case ControllerManager:
		return slices.Concat(c.controllerManagerArgs(), c.featureGates())
	default:
		return c.kwokArgs()
	}
}

// featureGates returns the flags of the feature gates, and others that go with them; none if there are no gates.
func (c *Cluster) featureGates(others ...string) []string {
	if len(c.opts.FeatureGates) == 0 {
		return nil
	}
	var gates []string
	for _, name := range slices.Sorted(maps.Keys(c.opts.FeatureGates)) {
		gates = append(gates, fmt.Sprintf("%s=%t", name, c.opts.FeatureGates[name]))
	}
	return append(others, "--feature-gates="+strings.Join(gates, ","))
}

// EtcdURL returns the address of etcd.
func (c *Cluster) EtcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.ports.Etcd) }

func (c *Cluster) etcdArgs() []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.EtcdPeer)
	return []string{
		"--name=berth",
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + c.EtcdURL(),
		"--advertise-client-urls=" + c.EtcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=berth=" + peer,
		// Data outlives a killed process (the page cache does), not a power cut; that is enough here and much faster.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	}
}

func (c *Cluster) apiserverArgs() []string {
	args := []string{
		"--etcd-servers=" + c.EtcdURL(),
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports.APIServer),
		"--advertise-address=127.0.0.1",
		// A loopback address is no valid endpoint for the kubernetes service, so none is published.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceIP.String() + "/16",
		"--tls-cert-file=" + c.pki.path("server.crt"),
		"--tls-private-key-file=" + c.pki.path("server.key"),
		"--client-ca-file=" + c.pki.path("ca.crt"),
		"--token-auth-file=" + c.pki.path("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.path("sa.key"),
		"--service-account-signing-key-file=" + c.pki.path("sa.key"),
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1500",
		"--audit-policy-file=" + filepath.Join(c.dir, "audit-policy.yaml"),
		"--audit-log-path=" + c.AuditLogPath(),
		// One file: a reader need not handle rotation.
		"--audit-log-maxsize=100000",
	}
	if c.opts.NoControllerManager {
		args = append(args, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	}
	return args
}

func (c *Cluster) controllerManagerArgs() []string {
	kubeconfig := c.componentKubeconfig(ControllerManager)
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports.ControllerManager),
		"--tls-cert-file=" + c.pki.path("server.crt"),
		"--tls-private-key-file=" + c.pki.path("server.key"),
		"--leader-elect=false",
		// The TTL controller annotates every node for a kubelet, again whenever the cluster passes 100, 500, 1000, … nodes. No one
		// reads Endpoints, which are written as often as EndpointSlices.
		"--controllers=*,-ttl-controller,-endpoints-controller,-endpointslice-mirroring-controller",
		// Of two claims that take the same volume, one is bound only at the next of these.
		"--pvclaimbinder-sync-period=2s",
		"--root-ca-file=" + c.pki.path("ca.crt"),
		"--service-account-private-key-file=" + c.pki.path("sa.key"),
		"--cluster-signing-cert-file=" + c.pki.path("ca.crt"),
		"--cluster-signing-key-file=" + c.pki.path("ca.key"),
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		"--concurrent-statefulset-syncs=20",
		"--concurrent-job-syncs=20",
		"--concurrent-gc-syncs=40",
		"--concurrent-namespace-syncs=20",
	}
	if !c.opts.NoKWOK {
		// A busy machine is late with heartbeats. Pods of a node that was NotReady are not Ready any more, and KWOK, other than a
		// kubelet, leaves them so.
		args = append(args, "--node-monitor-grace-period=10m")
	}
	return args
}

// healthURL returns where a component reports that it is ready.
func (c *Cluster) healthURL(name string) string {
	switch name {
	case Etcd:
		return c.EtcdURL() + "/health"
	case APIServer:
		return c.URL() + "/readyz"
	case ControllerManager:
		return fmt.Sprintf("https://127.0.0.1:%d/healthz", c.ports.ControllerManager)
	default:
		return fmt.Sprintf("http://127.0.0.1:%d/healthz", c.ports.KWOK)
	}
}

func (c *Cluster) waitReady(ctx context.Context, name string) error {
	var client *http.Client
	if name == Etcd || name == KWOK {
		client = &http.Client{}
	} else {
		var err error
		if client, err = rest.HTTPClientFor(c.Config()); err != nil {
			return err
		}
	}
	client.Timeout = 5 * time.Second
	return waitHealthy(ctx, c.Component(name), client, c.healthURL(name))
}

// waitHealthy polls until one of the addresses answers 200 OK. It gives up early when the process ends.
func waitHealthy(ctx context.Context, p *Process, client *http.Client, urls ...string) error {
	last := "no answer"
	ok := func(ctx context.Context) (bool, error) {
		if p.ended() {
			return false, p.exitedError()
		}
		for _, url := range urls {
			status, why, err := get(ctx, client, url, "")
			switch {
			case err != nil:
				last = err.Error()
			case status == http.StatusOK:
				return true, nil
			default:
				last = fmt.Sprintf("%d %s: %s", status, http.StatusText(status), bytes.TrimSpace(why))
			}
		}
		return false, nil
	}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, ok)
	if wait.Interrupted(err) {
		return fmt.Errorf("wait for %s to be ready: %w (%s); its last lines:\n%s", p.Name, err, last, p.LogTail(20))
	}
	return err
}

// insecureClient is for the self-signed certificates that components on the loopback interface make for themselves.
func (c *Cluster) insecureClient() (*http.Client, error) {
	cert, err := tls.X509KeyPair(c.config.CertData, c.config.KeyData)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true},
		},
	}, nil
}

// waitServiceAccount waits until pods can be created in a namespace: the API server requests its default service account.
func waitServiceAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	accounts := client.CoreV1().ServiceAccounts(namespace)
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait for the service account of namespace %s: %w", namespace, err)
	}
	return nil
}
