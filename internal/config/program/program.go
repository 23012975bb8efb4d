// SPDX-License-Identifier: Apache-2.0

// Package program has what the main packages of berth-controller and berth-console share.
package program

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/config/buildinfo"
)

const defaultNamespace = "berth-system"

// namespaceFile is where a pod reads the namespace that it runs in.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ClientConfig returns the configuration of a client of the API server. The program is named in its requests.
func ClientConfig(c controller.ClientConnection, program string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if c.Kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	} else {
		config, err = ctrl.GetConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	config.QPS, config.Burst = float32(c.QPS), int(c.Burst)
	config.UserAgent = program + "/" + buildinfo.Version()
	return config, nil
}

// MetricsOptions returns the options of the server of /metrics. An error means that its certificate is missing.
func MetricsOptions(m controller.Metrics) (metricsserver.Options, error) {
	o := metricsserver.Options{BindAddress: m.BindAddress, SecureServing: m.Secure, CertDir: m.CertDirectory}
	if !m.Secure {
		return o, nil
	}
	o.FilterProvider = filters.WithAuthenticationAndAuthorization
	// HTTP/2 is of no use to a scraper, and costs a server more under attack.
	o.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.NextProtos = tls.VersionTLS12, []string{"http/1.1"}
	}}
	if m.CertDirectory == "" {
		return o, nil
	}
	// Without this check a wrong directory would mean a self-signed certificate.
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(m.CertDirectory, name)); err != nil {
			return o, fmt.Errorf("read metrics.certDirectory: %w", err)
		}
	}
	return o, nil
}

// namespaceOf returns the configured namespace, else the one that file names, else berth-system.
func namespaceOf(configured, file string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	own, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) {
		return defaultNamespace, nil
	}
	if err != nil {
		return "", fmt.Errorf("find the namespace that this runs in: %w", err)
	}
	return strings.TrimSpace(string(own)), nil
}

// OwnNamespace fills in the namespace that the program runs in where none is configured.
func OwnNamespace(configured ...*string) error {
	for _, c := range configured {
		namespace, err := namespaceOf(*c, namespaceFile)
		if err != nil {
			return err
		}
		*c = namespace
	}
	return nil
}
