// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"berth.dev/berth/internal/policies/decision"
)

const (
	decisionsBindAddress = "decisions-bind-address"
	// decisionsShutdownTimeout bounds how long requests in flight delay the end of the process.
	decisionsShutdownTimeout = 2 * time.Second
)

// decisions are the records of scheduling attempts, and where they are served.
type decisions struct {
	store *decision.Store
	// address is empty if they are not served.
	address string
}

func (d *decisions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&d.address, decisionsBindAddress, d.address, "The IP address and port on which the records of scheduling attempts are "+
		"served, such as 127.0.0.1:10260: GET "+decision.Path("NAMESPACE", "POD")+". TLS, authentication and authorization are those of the "+
		"secure port; a user reads the records of pods that they may get, for example with kubectl berth explain --scores. "+
		"If empty, they are not served.")
}

// serve serves the records until the context ends, unless the flag is not set.
func (d *decisions) serve(ctx context.Context, c *config.CompletedConfig) error {
	if d.address == "" {
		return nil
	}
	err := errors.New("it requires --secure-port, whose certificate and authentication it uses")
	if c.SecureServing != nil {
		err = d.listen(ctx, c.SecureServing, decision.Handler(d.store, c.Authentication.Authenticator, c.Authorization.Authorizer))
	}
	if err != nil {
		return fmt.Errorf("--%s is %q: %w", decisionsBindAddress, d.address, err)
	}
	return nil
}

// listen serves on the address with the certificates of a secure port.
func (d *decisions) listen(ctx context.Context, port *server.SecureServingInfo, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.address)
	if err != nil {
		return err
	}
	if _, _, err := sharing(port, listener).Serve(handler, decisionsShutdownTimeout, ctx.Done()); err != nil {
		return errors.Join(err, listener.Close())
	}
	klog.FromContext(ctx).Info("Serving decisions", "address", listener.Addr())
	return nil
}

// sharing returns a secure port with the certificates of another one. That one runs their controllers, which must run once:
// without their methods, this one is only informed of changes.
func sharing(port *server.SecureServingInfo, listener net.Listener) *server.SecureServingInfo {
	out := *port
	out.Listener = listener
	if port.ClientCA != nil {
		out.ClientCA = struct {
			dynamiccertificates.CAContentProvider
		}{port.ClientCA}
	}
	if port.Cert != nil {
		out.Cert = struct {
			dynamiccertificates.CertKeyContentProvider
		}{port.Cert}
	}
	out.SNICerts = nil
	for _, cert := range port.SNICerts {
		out.SNICerts = append(out.SNICerts, struct {
			dynamiccertificates.SNICertKeyContentProvider
		}{cert})
	}
	return &out
}
