// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubeclient "berth.dev/berth/internal/kube/client"
)

// Kubeconfig writes a kubeconfig with a client certificate for a user and returns its path. The user has no rights but
// those that RBAC gives it. A service account (system:serviceaccount:<namespace>:<name>) is put into its groups when
// none are given. The API server adds system:authenticated by itself.
func (c *Cluster) Kubeconfig(user string, groups ...string) (string, error) {
	path := filepath.Join(c.dir, "kubeconfig-"+strings.NewReplacer(":", "-", "/", "-").Replace(user))
	return path, c.writeKubeconfig(path, user, groupsOf(user, groups)...)
}

// ConfigFor returns a client configuration for a user, as Kubeconfig does, without client-side rate limits.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	return c.clientConfig(user, groupsOf(user, groups)...)
}

// groupsOf returns the given groups, or those of a service account if none are given.
func groupsOf(user string, given []string) []string {
	namespace, _, err := serviceaccount.SplitUsername(user)
	if len(given) > 0 || err != nil {
		return given
	}
	return serviceaccount.MakeGroupNames(namespace)
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
	content, err := clientcmd.Write(*cfg)
	if err == nil {
		err = replaceFile(path, content)
	}
	if err != nil {
		return fmt.Errorf("write kubeconfig for %s: %w", user, err)
	}
	return nil
}

// replaceFile writes a file at once: a program of the same user may be reading it.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (c *Cluster) componentKubeconfig(name string) string {
	return filepath.Join(c.dir, name+".kubeconfig")
}

// NewClient returns a client for the objects of Kubernetes and of Berth.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := kubeclient.Scheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}
