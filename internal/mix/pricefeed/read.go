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
)

// maxFile bounds a file of a user's own prices.
const maxFile = 4 << 20

// Bounds of what an Endpoint reads. MaxMetrics is above that of prices.ReadMetrics, whose error names the line.
const (
	MaxMetrics = 40 << 20
	Timeout    = 30 * time.Second
)

// Endpoint reads from URLs: internal/records/prometheus has it.
type Endpoint interface {
	// Page has a function read the metrics that a program serves.
	Page(ctx context.Context, address string, read func(io.Reader) error) error
	// Values returns the answers of a Prometheus server to queries, in their order.
	Values(ctx context.Context, address string, queries []string, at time.Time) ([]model.Vector, error)
}

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
	// From reads from both URLs.
	From Endpoint
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
		err = l.From.Page(ctx, name, func(page io.Reader) error {
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

func (l *Live) query(ctx context.Context, now time.Time) (*prices.Metrics, error) {
	queries := prices.Queries()
	texts := make([]string, len(queries))
	for i, q := range queries {
		texts[i] = q.Text
	}
	values, err := l.From.Values(ctx, l.Prometheus, texts, now)
	if err != nil {
		return nil, err
	}
	answers := map[string]model.Vector{}
	for i, q := range queries {
		answers[q.Metric] = values[i]
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
