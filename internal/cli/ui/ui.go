// SPDX-License-Identifier: Apache-2.0

// Package ui has the command that serves the console to a browser on this machine.
package ui

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/cli/browser"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/console"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/prices"
)

const about = `Opens web pages in your browser: the mixes and workloads with their slots, why a mix is not satisfied, the nodes, the resource limits, the
deployment records and the environments. There you can plan and apply other numbers of a CapacityMix, create, edit and delete limits, start,
stop, scale and roll back environments, and follow their logs. The pages follow the cluster while they are open. They use your Kubernetes
credentials: you see what you may list, and change what you may change.

The command listens on the loopback address of this machine, and lets in only the browser that is opened with the URL that it prints. Keep
this URL to yourself: whoever opens it on this machine acts as you, until the command ends.`

const examples = `  # Open the console for all namespaces
  kubectl berth ui -A

  # Serve the namespace shop on port 8500, and open no browser
  kubectl berth ui -n shop --port 8500 --no-browser

  # Serve pages that change nothing
  kubectl berth ui --read-only

  # Compute the costs with your own prices
  kubectl berth ui -A --prices prices.yaml

  # Compute the costs with the prices that Karpenter and OpenCost have
  kubectl berth ui -A --prices-prometheus http://localhost:9090`

const (
	minInterval = time.Second
	maxInterval = time.Hour
	// headerTimeout is the timeout for reading a request's header.
	headerTimeout = 10 * time.Second
	// maxHeader bounds the header of a request.
	maxHeader = 64 << 10
)

type flags struct {
	port      uint16
	noBrowser bool
	readOnly  bool
	planner   console.Planner
	reports   console.Reports
	interval  time.Duration
	prices    command.Prices
	// open opens a URL in the browser.
	open func(url string) error
}

// New returns the command ui, whose pages show the plans of a planner, and reports.
func New(o *command.Options, planner console.Planner, reports console.Reports) *cobra.Command {
	f := &flags{open: browser.OpenURL, planner: planner, reports: reports}
	cmd := &cobra.Command{
		Use:     "ui",
		Short:   "Show mixes, limits, records and environments in the browser",
		Long:    about,
		Example: examples,
		Args:    command.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.Uint16VarP(&f.port, "port", "p", 0, "The port to listen on; 0 is any free port.")
	flags.BoolVar(&f.noBrowser, "no-browser", false, "Print the URL, and open no browser.")
	flags.BoolVar(&f.readOnly, "read-only", false, "Serve pages without forms: they change nothing.")
	flags.DurationVar(&f.interval, "interval", 2*time.Second,
		"The time between two readings of the cluster while a page is open, from 1s to 1h. Reading takes at most a fifth of the time, so in a "+
			"large cluster it is longer.")
	f.prices.Flags(cmd)
	command.Check(cmd, f.prices.CheckFeed)
	o.AllNamespacesFlag(cmd)
	return cmd
}

func (f *flags) run(ctx context.Context, o *command.Options) error {
	if f.interval < minInterval || f.interval > maxInterval {
		return fmt.Errorf("--interval is %s: it must be from %s to %s", f.interval, minInterval, maxInterval)
	}
	feed, err := f.prices.Feed(ctx, func(error) {}) // the pages have the cause
	if err != nil {
		return err
	}
	s, err := newSource(o)
	if err != nil {
		return err
	}
	feed.AddOverlays(func(ctx context.Context) (*prices.Overlays, error) { return live.Overlays(ctx, s.writer) })
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(f.port))))
	if err != nil {
		return err
	}
	c := console.New(f.console(s, feed.Now))
	local := console.NewLocal(c, listener.Addr())
	// No full stop: terminals take it for a part of the URL.
	if _, err := fmt.Fprintln(o.Out, "The console is at "+local.URL()); err != nil {
		return err
	}
	if !f.noBrowser {
		if err := f.open(local.URL()); err != nil {
			o.Warn("the browser cannot be opened (%v): open the URL yourself", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = feed.Start(ctx) }() // which has no error
	go c.Run(ctx)
	return command.Serve(ctx, listener, newServer(ctx, local))
}

func (f *flags) console(s *source, now func() prices.Reading) console.Options {
	out := console.Options{Source: s, Plan: f.planner, Reports: f.reports, Namespace: s.namespace, Interval: f.interval, Prices: now}
	out.Log = slog.New(slog.DiscardHandler)
	if !f.readOnly {
		out.ClientOf = func(*http.Request) (client.Client, error) { return s.writer, nil }
		out.Environment = change.Run
	}
	return out
}

// newServer returns a server whose streams to open pages end with the context.
func newServer(ctx context.Context, handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
}
