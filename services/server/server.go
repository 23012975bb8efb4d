// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/internal/kube/grpcweb"
)

const (
	// drainTimeout is the time for calls in flight to finish at shutdown. The controller itself has 3 seconds.
	drainTimeout = 2500 * time.Millisecond
	// headerTimeout is the timeout for reading a request's header, idleTimeout that of a connection without a call.
	headerTimeout = 10 * time.Second
	idleTimeout   = 5 * time.Minute
	// The interval and the timeout of keepalive pings on idle connections.
	pingAfter, pingTimeout = 30 * time.Second, 15 * time.Second
	maxHeaderBytes         = 64 << 10
	// maxStreams is the maximum number of concurrent calls of a connection.
	maxStreams = 100
	// frameBytes is the largest frame, for which a connection allocates a buffer as soon as it is announced.
	// streamBuffer and connectionBuffer are the flow control windows of bodies.
	frameBytes, streamBuffer, connectionBuffer = 16 << 10, 64 << 10, 512 << 10

	healthService = "grpc.health.v1.Health"
)

// Server serves gRPC and REST. Services are added before it starts.
type Server struct {
	config controller.Services
	// timeouts are those of config, until they are changed.
	timeouts atomic.Pointer[timeouts]
	log      logr.Logger
	reviews  *reviews
	tokens   *tokens
	limits   *limits
	// connections are those of all addresses.
	connections *connections
	reach       *reach
	// serving is true from the time that connections are accepted until the shutdown.
	serving atomic.Bool

	grpc    *grpc.Server
	health  *health.Server
	rest    *http.ServeMux
	routes  map[string]resource
	methods map[string]map[string]method // by service and name
	// openServices are those without authentication.
	openServices map[string]bool
	// origins are those of pages that may call, nil if gRPC-Web is not served.
	origins *grpcweb.Origins

	certificate *certwatcher.CertWatcher // nil without TLS
	clients     *dynamiccertificates.DynamicFileCAContent
}

// New returns a server that authenticates callers with an API server. It reads the certificates, so that a wrong path
// is an error at startup.
func New(c controller.Services, api *rest.Config, log logr.Logger) (*Server, error) {
	s := &Server{
		config: c, log: log, rest: http.NewServeMux(), routes: map[string]resource{},
		methods: map[string]map[string]method{}, openServices: map[string]bool{},
	}
	s.limits = newLimits(&c)
	s.tokens = newTokens(strings.TrimSuffix(pathOf(&c, &c.RequestLimits.UnknownTokensPerSecond), ".unknownTokensPerSecond"), time.Duration(c.TokenCacheSeconds)*time.Second, clock.RealClock{})
	s.tokens.set(c.RequestLimits.UnknownTokensPerSecond, c.RequestLimits.UnknownTokensPerSecondPerAddress)
	s.connections = &connections{most: s.limits.connections, gauge: openConnections}
	s.setTimeouts(&c)
	var err error
	if c.CertFile != "" {
		if s.certificate, err = certwatcher.New(c.CertFile, c.KeyFile); err != nil {
			return nil, fmt.Errorf("read services.certFile and services.keyFile: %w", err)
		}
	}
	var clients dynamiccertificates.CAContentProvider
	if c.ClientCAFile != "" {
		if s.clients, err = dynamiccertificates.NewDynamicCAContentFromFile("services-client-ca", c.ClientCAFile); err != nil {
			return nil, fmt.Errorf("read services.clientCAFile: %w", err)
		}
		clients = s.clients
	}
	if s.reviews, err = newReviews(api, clients, time.Duration(c.TokenCacheSeconds)*time.Second); err != nil {
		return nil, err
	}
	if s.reach, err = newReach(api); err != nil {
		return nil, err
	}
	if c.GRPCWeb.Enabled {
		if s.origins, err = grpcweb.NewOrigins(c.GRPCWeb.AllowedOrigins); err != nil {
			return nil, fmt.Errorf("services.grpcWeb.allowedOrigins: %w", err)
		}
	}
	s.grpc = s.newGRPC()
	for _, path := range []string{healthPath, healthzPath} {
		s.Route(path, map[string]Handler{http.MethodGet: func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write([]byte("OK"))
			return err
		}})
	}
	s.rest.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeError(w, Refuse(codes.NotFound, fmt.Sprintf("path %q not found", r.URL.Path)))
	}))
	return s, nil
}

// Register adds a gRPC service. It must be called before Start.
func (s *Server) Register(d *grpc.ServiceDesc, service any) { s.grpc.RegisterService(d, service) }

// RegisterOpen adds a gRPC service without authentication, for probes that have no token. It must be called before
// Start.
func (s *Server) RegisterOpen(d *grpc.ServiceDesc, service any) {
	s.openServices[d.ServiceName] = true
	s.Register(d, service)
}

// Health has the serving status of services.
func (s *Server) Health() healthpb.HealthServer { return s.health }

// Ready is a readiness check of the process: it fails while no connection is accepted, so that no Endpoint of the Service
// refuses calls. Whether the API server is reachable does not count: then calls get UNAVAILABLE from any replica.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("gRPC and REST are not served")
	}
	return nil
}

// NeedLeaderElection returns false: every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// identify sets the service and method of a call, only if they are served.
func (s *Server) identify(r *http.Request) *call {
	pages := s.origins != nil
	if !isGRPC(r) || pages && grpcweb.Is(r) { // a form that is not served
		c := &call{service: restService, method: other}
		if pages && grpcweb.IsPreflight(r) {
			c.method = http.MethodOptions
			return c
		}
		_, path := s.rest.Handler(r)
		if _, served := s.routes[path][r.Method]; served {
			c.method = r.Method + " " + path
		}
		return c
	}
	c := &call{service: other, method: other, grpc: true}
	service, method, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if methods, served := s.methods[service]; served {
		c.service = service
		if how, served := methods[method]; served {
			c.method, c.streaming, c.clientStream = method, how.streaming, how.clientStream
		}
	}
	return c
}

// Start serves on the configured addresses until the context ends, and then waits for calls in flight.
func (s *Server) Start(ctx context.Context) error {
	var listeners []net.Listener
	for _, address := range append([]string{s.config.BindAddress}, s.config.ExtraBindAddresses...) {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			for _, l := range listeners {
				_ = l.Close() // no call was served yet
			}
			return fmt.Errorf("serve gRPC and REST: %w", err)
		}
		listeners = append(listeners, listener)
	}
	return s.Serve(ctx, listeners...)
}

// Serve is Start on listeners, which it closes at the end.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	for name, info := range s.grpc.GetServiceInfo() {
		s.methods[name] = map[string]method{}
		for _, m := range info.Methods {
			s.methods[name][m.Name] = method{m.IsServerStream || m.IsClientStream, m.IsClientStream}
		}
	}
	s.served(true)
	s.serving.Store(true)
	servers, ctx := errgroup.WithContext(ctx)
	if s.certificate != nil {
		servers.Go(func() error { return s.certificate.Start(ctx) })
	}
	if s.clients != nil {
		go s.clients.Run(ctx, 1)
	}
	servers.Go(func() error { return s.watch(ctx) })
	for _, listener := range listeners {
		servers.Go(func() error { return s.serveOn(ctx, listener) })
		s.log.Info(
			"Serving gRPC and REST", "address", listener.Addr().String(), "tls", s.certificate != nil,
			"clientCertificates", s.clients != nil, "grpcWeb", s.origins != nil,
		)
	}
	err := servers.Wait()
	s.grpc.Stop()
	return err
}

func (s *Server) serveOn(ctx context.Context, accepting net.Listener) error {
	server, listener := s.httpServer(), &listener{accepting, s.connections}
	ended := make(chan error, 1)
	go func() {
		if s.certificate != nil {
			ended <- server.ServeTLS(listener, "", "")
		} else {
			ended <- server.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve gRPC and REST: %w", err)
	case <-ctx.Done():
	}
	s.serving.Store(false)
	s.health.Shutdown() // sets NOT_SERVING
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		s.log.Info("Calls in flight were terminated at shutdown", "address", listener.Addr().String())
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve gRPC and REST: %w", err)
	}
	return nil
}

func (s *Server) httpServer() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(s.certificate == nil)
	server := &http.Server{
		Handler:           s,
		Protocols:         &protocols,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          ErrorLog(s.log),
		ConnContext:       withConnection,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: answerTimeout,
			MaxReadFrameSize: frameBytes, MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connectionBuffer,
		},
	}
	if s.certificate != nil {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate.GetCertificate}
		if s.clients != nil {
			// Optional: the authenticator verifies it. A token is the alternative.
			server.TLSConfig.ClientAuth = tls.RequestClientCert
		}
	}
	return server
}
