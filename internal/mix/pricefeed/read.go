// SPDX-License-Identifier: Apache-2.0

// Package pricefeed reads the prices of nodes from where an operator or a user names them: a file of their own, and the metrics of
// Karpenter and OpenCost. The command line reads them once, the controller and the console from time to time.
package pricefeed

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/records/prometheus"
)

// Bounds of what is read. The second one is above that of prices.ReadMetrics, whose error names the line.
const (
	maxFile    = 4 << 20
	maxMetrics = 40 << 20
	// timeout is that of an answer, unless it is set.
	timeout = 30 * time.Second
)

// Own are the prices of a user.
type Own struct {
	// File is the name of a file of prices, "" for none.
	File string
	// Discount is the percentage of the on-demand prices of lists that the user does not pay.
	Discount float64
}

// Options reads the prices of the file, if there is one.
func (o *Own) Options() (options prices.Options, err error) {
	options.Discount = o.Discount
	if o.File == "" {
		return options, nil
	}
	f, err := os.Open(o.File)
	if err != nil {
		return options, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return options, err
	}
	if len(data) > maxFile {
		return options, fmt.Errorf("%s: longer than %d bytes", o.File, maxFile)
	}
	if options.File, err = prices.ReadFile(o.File, data); err != nil {
		return options, fmt.Errorf("%s: %w", o.File, err)
	}
	return options, nil
}

// Live are the prices of programs in the cluster.
type Live struct {
	// Metrics is a file with metrics as text, "-" for an input, or a URL.
	Metrics string
	// Prometheus is the URL of a server that has these metrics.
	Prometheus string
	// TokenFile and CAFile are for both URLs.
	TokenFile, CAFile string
	// Timeout bounds each answer; 0 means 30 seconds.
	Timeout time.Duration
	// MetricsField and PrometheusField name the two in errors: a URL may have a password in it.
	MetricsField, PrometheusField string
}

// IsURL reports whether metrics are those of a URL.
func (l *Live) IsURL() bool {
	return strings.HasPrefix(l.Metrics, "http://") || strings.HasPrefix(l.Metrics, "https://")
}

// Read reads the prices, nil if none are named.
func (l *Live) Read(ctx context.Context, in io.Reader, now time.Time) (m *prices.Metrics, err error) {
	name := l.Metrics
	switch {
	case l.Prometheus != "":
		m, err = l.query(ctx, now)
		name = l.PrometheusField
	case name == "":
		return nil, nil
	case name == "-":
		m, err = prices.ReadMetrics("the standard input", now, in)
	case l.IsURL():
		err = prometheus.ReadPage(ctx, l.server(name), func(page io.Reader) error {
			m, err = prices.ReadMetrics("its metrics", now, page)
			return err
		})
		name = l.MetricsField
	default:
		m, err = readFile(name, now)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func (l *Live) server(address string) prometheus.Config {
	c := prometheus.Config{
		Address: address, BearerTokenFile: l.TokenFile, CAFile: l.CAFile, Timeout: l.Timeout, MaxResponse: maxMetrics,
	}
	if c.Timeout == 0 {
		c.Timeout = timeout
	}
	return c
}

func (l *Live) query(ctx context.Context, now time.Time) (*prices.Metrics, error) {
	server, err := prometheus.New(l.server(l.Prometheus))
	if err != nil {
		return nil, err
	}
	answers := map[string]model.Vector{}
	for _, q := range prices.Queries() {
		if answers[q.Metric], err = server.Values(ctx, q.Text, now); err != nil {
			return nil, err
		}
	}
	return prices.ReadAnswers("Prometheus", now.UTC(), answers)
}

// readFile reads metrics that are as old as their file.
func readFile(name string, now time.Time) (*prices.Metrics, error) {
	f, err := os.Open(name) //nolint:gosec // the user's own file, named on the command line
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	at := info.ModTime()
	if at.After(now) {
		at = now
	}
	return prices.ReadMetrics(name, at, f)
}
