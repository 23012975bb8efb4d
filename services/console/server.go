// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	pages "berth.dev/berth/internal/console"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/services/server"
)

const (
	// drainTimeout is the time for requests in flight to finish at shutdown. Open pages end at once, and connect again.
	drainTimeout = 2500 * time.Millisecond
	// headerTimeout is the timeout for reading a request's header, idleTimeout that of a connection without a request, and
	// requestTimeout that of a request other than an open page.
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	requestTimeout = 90 * time.Second
	maxHeaderBytes = 64 << 10
	// requestsAtATime is the number of requests in progress, without open pages, and requestsPerUser that of a user.
	requestsAtATime, requestsPerUser = 128, 16
	// writeTimeout is that of a write to the API server.
	writeTimeout = 20 * time.Second
	// fieldManager is the field manager of what users write.
	fieldManager = "berth-console"
)

// Reports are the texts and the plans of the pages.
type Reports interface {
	pages.Reports
	Plan(context.Context, pages.Question) (*overview.Plan, []string, error)
}

// Options configure a Server.
type Options struct {
	Config controller.Console
	// Namespace is that of the Service.
	Namespace string
	// API is the API server, which users reach with their own token.
	API    *rest.Config
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper
	// Settings are those of the scheduler.
	Settings *overview.Settings
	// Prices returns the last reading of those of nodes, nil for those that are built in.
	Prices func() prices.Reading
	// Reports returns the texts and the plans of the pages. They read with the configuration of the user of a request, which configOf
	// returns for the context of the request. It is nil if the pages have none.
	Reports func(configOf func(context.Context) (*rest.Config, error)) Reports
	Log     logr.Logger
}

// Server serves the console.
type Server struct {
	config   controller.Console
	api      *rest.Config
	scheme   *runtime.Scheme
	mapper   meta.RESTMapper
	log      logr.Logger
	hosts    []string
	cookie   string
	auth     *server.Authenticator
	reviewer *reviewer
	sessions *sessions
	hubs     *hubs
	objects  *objects
	// connections is the limit of those, streams are open pages and requests all other requests in progress, by user.
	connections       *server.Limit
	streams, requests *server.Pool
	streamLimits      [2]*server.Limit
	certificate       *certwatcher.CertWatcher // nil without TLS
	prices            func() prices.Reading    // nil for those that are built in
	reports           Reports                  // nil if there are none
	handler           http.Handler
	serving           atomic.Bool
	clock             clock.PassiveClock
}

// New returns a server. It reads the certificates, so that a wrong path is an error at startup.
func New(o Options) (*Server, error) {
	c := o.Config
	s := &Server{
		config: c, api: o.API, scheme: o.Scheme, mapper: o.Mapper, log: o.Log, hosts: hostsOf(c.Hosts, o.Namespace),
		cookie: cookieName(&c), clock: clock.RealClock{}, prices: o.Prices,
	}
	if o.Reports != nil {
		s.reports = o.Reports(s.configOf)
	}
	if err := s.authenticator(); err != nil {
		return nil, err
	}
	if c.CertFile != "" {
		var err error
		if s.certificate, err = certwatcher.New(c.CertFile, c.KeyFile); err != nil {
			return nil, fmt.Errorf("read console.certFile and console.keyFile: %w", err)
		}
	}
	defaults := defaultNamespaces(o.Settings)
	if n := len(listingsOf("a", defaults)); n > maxListings {
		return nil, fmt.Errorf("the console lists %d kinds and namespaces, at most %d are possible: profiles have too many default namespaces of ResourceLimits", n, maxListings)
	}
	s.reviewer = newReviewer(s.auth.May, defaults, s.clock)
	s.objects = &objects{config: o.API, scheme: o.Scheme, mapper: o.Mapper, clock: s.clock}
	s.limits()
	s.hubs.make = func(k key) *pages.Console { return s.pages(k, o.Settings, defaults) }
	s.handler = s.routes()
	return s, nil
}

func (s *Server) authenticator() (err error) {
	s.auth, err = server.NewAuthenticator(s.api, server.AuthenticatorOptions{
		Path: "console.limits", CacheTTL: tokenTTL, Reviews: requestsAtATime, ReviewsPerToken: requestsPerUser,
	})
	return err
}

// limits makes what counts, with the limits of the configuration.
func (s *Server) limits() {
	field := func(name string) *server.Limit { return server.NewLimit("console.limits."+name, 0) }
	s.sessions = &sessions{
		clock: s.clock, idle: time.Duration(s.config.IdleSeconds) * time.Second,
		most:  time.Duration(s.config.MaxSessionSeconds) * time.Second,
		total: field("sessions"), perUser: field("sessionsPerUser"), all: map[sessionID]*session{},
	}
	s.hubs = &hubs{most: field("readings"), clock: s.clock, all: map[key]*hub{}}
	s.connections = field("connections")
	s.streamLimits = [2]*server.Limit{field("streams"), field("streamsPerUser")}
	s.streams = server.NewPool("open pages", s.streamLimits[0], s.streamLimits[1])
	s.requests = server.NewPool("requests", server.NewLimit("requests", requestsAtATime), server.NewLimit("requestsPerUser", requestsPerUser))
	s.Retune(&s.config)
}

// Retune applies the limits of a configuration to what begins from then on.
func (s *Server) Retune(c *controller.Console) {
	l := &c.Limits
	s.sessions.total.Set(int(l.Sessions))
	s.sessions.perUser.Set(int(l.SessionsPerUser))
	s.hubs.most.Set(int(l.Readings))
	s.connections.Set(int(l.Connections))
	s.streamLimits[0].Set(int(l.Streams))
	s.streamLimits[1].Set(int(l.StreamsPerUser))
	s.auth.Limit(l.UnknownTokensPerSecond, l.UnknownTokensPerSecondPerAddress)
}

// defaultNamespaces are those with ResourceLimits for all namespaces.
func defaultNamespaces(s *overview.Settings) (all []string) {
	seen := map[string]bool{"": true}
	for _, name := range s.Profile.SchedulerNames {
		if args, ok := s.Profile.LimitArgs(name); ok && !seen[args.DefaultNamespace] {
			seen[args.DefaultNamespace] = true
			all = append(all, args.DefaultNamespace)
		}
	}
	return all
}

// pages returns the pages of a key.
func (s *Server) pages(k key, settings *overview.Settings, defaults []string) *pages.Console {
	o := pages.Options{
		Source: &source{
			objects: s.objects, settings: settings, namespace: k.namespace,
			granted: k.rights.of(listingsOf(k.namespace, defaults)), log: s.log,
		},
		Namespace: k.namespace, Interval: time.Duration(s.config.IntervalSeconds) * time.Second, Prices: s.prices,
		Log: slog.New(logr.ToSlogHandler(s.log)),
	}
	if s.reports != nil {
		o.Reports, o.Plan = s.reports, s.reports.Plan
	}
	if !s.config.ReadOnly {
		o.ClientOf, o.Environment = s.clientOf, change.Run
	}
	return pages.New(o)
}

// clientOf returns the client that writes as the user of a request, with nothing but its token: the API server decides, and audits the
// user.
func (s *Server) clientOf(r *http.Request) (client.Client, error) {
	config, err := s.configOf(r.Context())
	if err != nil {
		return nil, err
	}
	config.Timeout = writeTimeout
	c, err := client.New(config, client.Options{Scheme: s.scheme, Mapper: s.mapper})
	if err != nil {
		return nil, errors.New("the API server cannot be reached")
	}
	return client.WithFieldOwner(c, fieldManager), nil
}

// configOf is the configuration of clients of the user of a request.
func (s *Server) configOf(ctx context.Context) (*rest.Config, error) {
	v := visitorOf(ctx)
	if v == nil {
		return nil, errNoSession
	}
	config := rest.AnonymousClientConfig(s.api)
	config.BearerToken = v.token
	return config, nil
}

// Ready is a readiness check of the process: it fails while no connection is accepted.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the console is not served")
	}
	return nil
}

// NeedLeaderElection returns false: every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start serves on the configured address until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.BindAddress)
	if err != nil {
		return fmt.Errorf("serve the console: %w", err)
	}
	running, ctx := errgroup.WithContext(ctx)
	if s.certificate != nil {
		running.Go(func() error { return s.certificate.Start(ctx) })
	}
	running.Go(func() error { s.objects.run(ctx); return nil })
	running.Go(func() error { s.hubs.run(ctx); return nil })
	running.Go(func() error { s.sessions.run(ctx); return nil })
	running.Go(func() error { return s.serve(ctx, listener) })
	s.log.Info("Serving the console", "address", listener.Addr().String(), "tls", s.certificate != nil, "hosts", s.hosts)
	return running.Wait()
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	connections := server.NewConnections(s.connections)
	listener = connections.Listen(listener)
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: server.ErrorLog(s.log), ConnContext: connections.Context,
		// Open pages end with the program.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	if s.certificate != nil {
		h.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.certificate.GetCertificate}
	}
	ended := make(chan error, 1)
	go func() {
		if s.certificate != nil {
			ended <- h.ServeTLS(listener, "", "")
		} else {
			ended <- h.Serve(listener)
		}
	}()
	s.serving.Store(true)
	select {
	case err := <-ended:
		return fmt.Errorf("serve the console: %w", err)
	case <-ctx.Done():
	}
	s.serving.Store(false)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if h.Shutdown(drain) != nil {
		_ = h.Close() // requests in flight end
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the console: %w", err)
	}
	return nil
}
