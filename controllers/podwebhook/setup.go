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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/podwebhook/certs"
)

// Options configure the webhook.
type Options struct {
	Kube   kubernetes.Interface
	Config *controller.Webhook
	// Handler answers the reviews.
	Handler *Handler
}

// Controller serves the webhook and keeps its certificates. It runs on every replica.
type Controller struct {
	Options
	host string
	port int
}

// New returns a controller. SetupWithManager adds it to a manager.
func New(o Options) (*Controller, error) {
	host, text, err := net.SplitHostPort(o.Config.BindAddress)
	if err != nil {
		return nil, fmt.Errorf("webhook.bindAddress: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("webhook.bindAddress: %w", err)
	}
	return &Controller{Options: o, host: host, port: port}, nil
}

// SetupWithManager adds the webhook and the keeper of its certificates to a manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	o := webhook.Options{
		Host:    c.host,
		Port:    c.port,
		CertDir: c.Config.CertDirectory,
		TLSOpts: []func(*tls.Config){func(t *tls.Config) { t.MinVersion = tls.VersionTLS12 }},
	}
	ready := func(*http.Request) error { return nil }
	if c.Config.CertDirectory == "" {
		keeper := certs.New(certs.Options{
			Kube:          c.Kube,
			Namespace:     c.Config.Namespace,
			Secret:        c.Config.SecretName,
			Configuration: c.Config.ConfigurationName,
			Names:         namesOf(c.host, c.Config.ServiceName, c.Config.Namespace),
			Clock:         clock.RealClock{},
		})
		o.TLSOpts = append(o.TLSOpts, func(t *tls.Config) { t.GetCertificate = keeper.GetCertificate })
		if err := mgr.Add(keeper); err != nil {
			return err
		}
		ready = keeper.Ready
	} else if err := checkFiles(c.Config.CertDirectory); err != nil {
		return err
	}
	server := webhook.NewServer(o)
	server.Register(Path, boundedReviews(&admission.Webhook{Handler: c.Handler}))
	if err := mgr.Add(server); err != nil {
		return err
	}
	// The API server must not be sent to a pod that does not accept its connections yet.
	accepts := server.StartedChecker()
	return mgr.AddReadyzCheck("webhook", func(r *http.Request) error {
		if err := ready(r); err != nil {
			return err
		}
		if err := accepts(r); err != nil {
			return err
		}
		if !c.Handler.Synced() {
			return errors.New("the ResourceLimits are not read yet")
		}
		return nil
	})
}

// namesOf returns the names by which the API server may reach the webhook: its Service, and the host that it listens on.
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

// checkFiles reports missing certificates before the start, which they would end.
func checkFiles(dir string) error {
	for _, name := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("read webhook.certDirectory: %w", err)
		}
	}
	return nil
}
