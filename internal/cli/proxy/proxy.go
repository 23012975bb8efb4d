// SPDX-License-Identifier: Apache-2.0

// Package proxy has the command that lets clients without Kubernetes credentials call Berth's services from this machine.
package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/kube/grpcweb"
)

const about = `Listens on this machine and passes gRPC and REST calls on to Berth's services, with your Kubernetes credentials. Clients that cannot send a
Kubernetes token, such as those of the systems that Berth takes over, can call Berth through it unchanged. Each call is authorized as yours.

The proxy accepts calls from this machine only, without authentication: every user and program of the machine can act as you while it
runs. It refuses calls from web pages, unless --allowed-origin names their origin. These can call by gRPC-Web, whether or not the services
serve it.

By default the proxy forwards connections to the pods of the Services berth and berth-environments-api, as kubectl port-forward does. That
requires the verbs get on services, list on pods and create on pods/portforward. With --server-url and --environments-server-url it connects to an
address instead.

The services check tokens. If your kubeconfig has a client certificate instead, name a ServiceAccount with --service-account: the proxy
requests tokens for it, which requires the verb create on serviceaccounts/token, and calls are authorized as those of the ServiceAccount.`

const examples = `  # Call the services as the ServiceAccount editor of the namespace shop
  kubectl berth proxy -n shop --service-account editor --services-ca ca.crt

  # List limits through it, without a token
  grpcurl -plaintext 127.0.0.1:50051 mcp.orchestrator.v1.ResourceLimitService/ListResourceLimits

  # Connect to services that run on this machine
  kubectl berth proxy --server-url http://127.0.0.1:9444 --environments-server-url http://127.0.0.1:9445`

// headerTimeout is the timeout for reading a request's header.
const headerTimeout = 10 * time.Second

type flags struct {
	address              string
	port                 uint16
	servers              [2]string // of berth and environments
	serviceAccount       string
	certificateAuthority string
	origins              []string
}

// New returns the command proxy.
func New(o *command.Options) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:     "proxy",
		Short:   "Call the gRPC and REST services with your Kubernetes credentials",
		Long:    about,
		Example: examples,
		Args:    command.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.address, "address", "127.0.0.1", "The loopback address to listen on.")
	flags.Uint16VarP(&f.port, "port", "p", 50051, "The port to listen on; 0 is any free port.")
	flags.StringVar(&f.servers[berth], "server-url", "", "The URL of the services of berth-controller, instead of its pods.")
	flags.StringVar(&f.servers[environments], "environments-server-url", "",
		"The URL of the service of berth-environments, instead of its pods.")
	flags.StringVar(&f.serviceAccount, "service-account", "",
		"Call as this ServiceAccount, of the namespace of -n or the kubeconfig.")
	flags.StringVar(&f.certificateAuthority, "services-ca", "",
		"A file with the certificate authority of the services. Default: the authorities of this machine.")
	flags.StringSliceVar(&f.origins, "allowed-origin", nil,
		"The origins of web pages that may call, such as http://localhost:5173, also by gRPC-Web. Default: none.")
	return cmd
}

func (f *flags) run(ctx context.Context, o *command.Options) error {
	listen, err := f.listenAddress()
	if err != nil {
		return err
	}
	origins, err := f.allowedOrigins()
	if err != nil {
		return err
	}
	targets, err := f.targets(o.SystemNamespace)
	if err != nil {
		return err
	}
	config, err := o.RestConfig()
	if err != nil {
		return err
	}
	namespace, err := o.Namespace()
	if err != nil {
		return err
	}
	authenticate, as, err := authenticator(ctx, config, namespace, f.serviceAccount)
	if err != nil {
		return err
	}
	transport, err := newTransport(config, f.certificateAuthority, targets)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	o.Sentence(fmt.Sprintf("Calls to %s are passed on as those of %s", listener.Addr(), as))
	return command.Serve(ctx, listener, newServer(newHandler(targets, authenticate(transport), namespace, origins)))
}

// newServer returns a server of HTTP/1 and of HTTP/2 without TLS.
func newServer(handler http.Handler) *http.Server {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// allowedOrigins are the origins of web pages that may call, nil for none.
func (f *flags) allowedOrigins() (*grpcweb.Origins, error) {
	if len(f.origins) == 0 {
		return nil, nil
	}
	if slices.Contains(f.origins, grpcweb.AnyOrigin) {
		return nil, fmt.Errorf("--allowed-origin is %q: name each origin, since every page that may call can act as you", grpcweb.AnyOrigin)
	}
	origins, err := grpcweb.NewOrigins(f.origins)
	if err != nil {
		return nil, fmt.Errorf("--allowed-origin: %w", err)
	}
	return origins, nil
}

// listenAddress is the address of --address and --port.
func (f *flags) listenAddress() (string, error) {
	if ip := net.ParseIP(f.address); ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("--address is %q: it must be a loopback address such as 127.0.0.1 or ::1, since callers are not authenticated", f.address)
	}
	return net.JoinHostPort(f.address, fmt.Sprint(f.port)), nil
}

// targets are where calls are passed on to: the URLs of the flags, or the pods of the Services in Berth's namespace.
func (f *flags) targets(systemNamespace string) (targets [2]target, err error) {
	for t, name := range map[int]string{berth: "--server-url", environments: "--environments-server-url"} {
		if f.servers[t] == "" {
			service := [2]string{"berth", "berth-environments-api"}[t]
			targets[t] = target{
				url:     &url.URL{Scheme: "https", Host: fmt.Sprintf("%s.%s.svc", service, systemNamespace)},
				service: service, namespace: systemNamespace,
			}
			continue
		}
		u, err := url.Parse(f.servers[t])
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" {
			return targets, fmt.Errorf("%s is %q: it must be a URL without a path, such as http://127.0.0.1:9444", name, f.servers[t])
		}
		targets[t] = target{url: u}
	}
	return targets, nil
}
