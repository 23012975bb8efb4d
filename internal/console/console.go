// SPDX-License-Identifier: Apache-2.0

// Package console serves web pages about the mixes of a cluster: an overview, each workload with its slots, what another mix would do, and
// the nodes. There are also pages of the resource limits, which can be changed, the deployment records, and the environments, which can be
// started and stopped. The pages are complete HTML without JavaScript; with it, the parts that change are replaced while a page is open.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
)

// Source reads the cluster as the user of the pages may.
type Source interface {
	Read(ctx context.Context) (*overview.Reading, error)
}

// Options configure a Console.
type Options struct {
	Source Source
	// Interval is the time between two readings while a page is open.
	Interval time.Duration
	// ClientOf returns the client that writes as the user of a request; nil if the pages change nothing. Requests of other origins must be
	// refused before they come here.
	ClientOf func(*http.Request) (client.Client, error)
	// Plan answers what another mix would do; nil if the pages do not.
	Plan Planner
	// Reports are the texts about objects; nil if the pages have none.
	Reports Reports
	// Namespace is the one that the pages show, "" for all.
	Namespace string
	// Environment changes an environment; required with ClientOf.
	Environment ChangeEnvironment
	// Prices returns the last reading of those of nodes, and does not wait for one; nil for those that are built in.
	Prices func() prices.Reading
	// Log gets what users cannot see.
	Log *slog.Logger
	// Now is the clock of ages; nil is time.Now.
	Now func() time.Time
}

// Console serves the pages. Its Run must run.
type Console struct {
	hub      *hub
	log      *slog.Logger
	clientOf func(*http.Request) (client.Client, error)
	change   ChangeEnvironment
	planner  Planner
	reports  Reports
	// namespace is that of Options.
	namespace string
	// planning are the turns of plans, reading those of reports, and following those of logs that are followed.
	planning, reading, following *turns
	handler                      http.Handler
}

// New returns a Console.
func New(o Options) *Console {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Console{
		hub: newHub(o.Source, o.Interval, o.Now), log: o.Log, clientOf: o.ClientOf, change: o.Environment, planner: o.Plan,
		reports: o.Reports, namespace: o.Namespace, planning: newTurns(1, 1), reading: newTurns(reportsAtATime, reportsPerUser),
		following: newTurns(mostFollowers, followersPerUser),
	}
	if o.Prices != nil {
		c.hub.prices = o.Prices
	}
	c.hub.writable, c.hub.plans, c.hub.reports = o.ClientOf != nil, o.Plan != nil, o.Reports != nil
	mux := http.NewServeMux()
	c.handler = compressed(mux)
	for _, path := range []string{
		"/{$}", "/savings", "/nodes", "/nodes/{name}", "/domain", "/workloads/{namespace}/{kind}/{name}", "/records", "/records/{namespace}/{name}", "/environments", "/environments/{namespace}/{name}",
	} {
		mux.HandleFunc("GET "+path, c.page)
	}
	for _, path := range []string{
		"/pods/{namespace}/{name}", "/pods/{namespace}/{name}/{report}", "/workloads/{namespace}/{kind}/{name}/{report}", "/records/{namespace}/{name}/{report}",
		"/environments/{namespace}/{name}/{report}",
	} {
		mux.HandleFunc("GET "+path, c.report)
	}
	for _, path := range Followed {
		mux.HandleFunc("GET "+path, c.follow)
	}
	mux.HandleFunc("GET /mixes/{namespace}/{name}/plan", c.plan)
	mux.HandleFunc("POST /mixes/{namespace}/{name}/plan", c.applyMix)
	for id, kind := range editedKinds {
		mux.HandleFunc("GET /"+id, c.page)
		mux.HandleFunc("GET /"+id+"/{namespace}/{name}", c.page)
		c.edits(mux, kind)
	}
	mux.HandleFunc("POST /environments/{namespace}/{name}/run", c.runEnvironment)
	for _, f := range savingsFormats {
		mux.HandleFunc("GET /savings."+f.name, c.savingsFile(f))
	}
	mux.HandleFunc("GET /find", c.find)
	mux.HandleFunc("GET /timeline", c.timeline)
	mux.HandleFunc("GET /stream", c.stream)
	mux.Handle("GET /static/", staticFiles())
	mux.HandleFunc("GET /", c.notFound)
	return c
}

// Run reads the cluster until the context ends: at the interval while a page is open, and not at all while none is.
func (c *Console) Run(ctx context.Context) { c.hub.run(ctx) }

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	c.handler.ServeHTTP(w, r)
}

// secure sets the headers of all responses: nothing is loaded from elsewhere, and no other page can contain, read or refer to these.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// again serves a page again, with what a user has sent or why it was refused. It is at a path that a browser can open.
func (c *Console) again(w http.ResponseWriter, r *http.Request, status int, path string, of func(*state) *page) {
	s, err := c.hub.current(r.Context(), sessionOf(r))
	if err != nil {
		return // the client is gone
	}
	c.write(w, r, status, of(s), &url.URL{Path: path})
}

// page serves a page.
func (c *Console) page(w http.ResponseWriter, r *http.Request) {
	s, err := c.hub.current(r.Context(), sessionOf(r))
	if err != nil {
		return // the client is gone
	}
	p, err := pageOf(r.URL, c.movesOf(r, r.URL).in(r.Context(), s, firstMoves))
	status := http.StatusOK
	if err != nil {
		p, status = failed(err), http.StatusNotFound
	}
	c.write(w, r, status, p, r.URL)
}

func (c *Console) notFound(w http.ResponseWriter, r *http.Request) {
	c.write(w, r, http.StatusNotFound, failed(errNoPage), r.URL)
}
