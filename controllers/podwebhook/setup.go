// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/podwebhook/certs"
)

// Add adds the webhook and the keeper of its certificates to a manager. The
// namespace is that of the Service and the Secret.
func Add(mgr ctrl.Manager, kube kubernetes.Interface, cfg *controller.Webhook, namespace string, h *Handler) error {
	host, text, err := net.SplitHostPort(cfg.BindAddress)
	if err != nil {
		return fmt.Errorf("webhook.bindAddress: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("webhook.bindAddress: %w", err)
	}
	o := webhook.Options{Host: host, Port: port, CertDir: cfg.CertDirectory, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
	}}}
	ready := func(*http.Request) error { return nil }
	if cfg.CertDirectory == "" {
		keeper := certs.New(certs.Options{
			Kube: kube, Namespace: namespace, Secret: cfg.SecretName, Configuration: cfg.ConfigurationName,
			Names: namesOf(host, cfg.ServiceName, namespace), Clock: clock.RealClock{},
		})
		o.TLSOpts = append(o.TLSOpts, func(c *tls.Config) { c.GetCertificate = keeper.GetCertificate })
		if err := mgr.Add(keeper); err != nil {
			return err
		}
		ready = keeper.Ready
	} else if err := present(cfg.CertDirectory); err != nil {
		return err
	}
	server := webhook.NewServer(o)
	server.Register(Path, boundedReviews(&admission.Webhook{Handler: h}))
	if err := mgr.Add(server); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("webhook", func(r *http.Request) error {
		if err := ready(r); err != nil {
			return err
		}
		if !h.Synced() {
			return errors.New("the ResourceLimits are not read yet")
		}
		return nil
	})
}

// namesOf are the names by which the API server may reach the webhook: its
// Service, and the host that it listens on if that is one.
func namesOf(host, service, namespace string) certs.Names {
	names := certs.Names{DNS: []string{service + "." + namespace + ".svc", service + "." + namespace + ".svc.cluster.local"}}
	switch ip := net.ParseIP(host); {
	case ip != nil && !ip.IsUnspecified():
		names.IPs = []net.IP{ip}
	case ip == nil && host != "":
		names.DNS = append(names.DNS, host)
	}
	return names
}

// present says early what would else end the controller in the middle of its start.
func present(dir string) error {
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("read webhook.certDirectory: %w", err)
		}
	}
	return nil
}
