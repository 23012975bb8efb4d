// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// Kubeconfig writes a kubeconfig with a client certificate for a user and returns its path. The user has no rights but
// those that RBAC gives it. A service account (system:serviceaccount:<namespace>:<name>) is put into its groups when
// none are given. The API server adds system:authenticated by itself.
func (c *Cluster) Kubeconfig(user string, groups ...string) (string, error) {
	path := filepath.Join(c.dir, "kubeconfig-"+strings.NewReplacer(":", "-", "/", "-").Replace(user))
	if len(groups) == 0 {
		groups = serviceAccountGroups(user)
	}
	return path, c.writeKubeconfig(path, user, groups...)
}

// ConfigFor returns a client configuration for a user, as Kubeconfig does, without client-side rate limits.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	if len(groups) == 0 {
		groups = serviceAccountGroups(user)
	}
	return c.clientConfig(user, groups...)
}

func serviceAccountGroups(user string) []string {
	parts := strings.Split(user, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" {
		return nil
	}
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2]}
}

func (c *Cluster) clientConfig(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := c.pki.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            c.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.ca, CertData: cert, KeyData: key},
		QPS:             -1,
	}, nil
}

func (c *Cluster) writeKubeconfig(path, user string, groups ...string) error {
	cert, key, err := c.pki.client(user, groups...)
	if err != nil {
		return err
	}
	const name = "berth"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.pki.ca}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	cfg.CurrentContext = name
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("write kubeconfig for %s: %w", user, err)
	}
	return nil
}

func (c *Cluster) componentKubeconfig(name string) string {
	return filepath.Join(c.dir, name+".kubeconfig")
}

// NewClient returns a client for the objects of Kubernetes and of Berth.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}
