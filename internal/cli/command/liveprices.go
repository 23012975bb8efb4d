// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/records/prometheus"
)

// Bounds of what is read for prices. The second one is above that of prices.ReadMetrics, whose error names the line.
const (
	pricesTimeout  = 30 * time.Second
	maxPricesBytes = 40 << 20
)

// LivePrices are the prices of programs in the cluster, as flags.
type LivePrices struct {
	// Metrics is a file with metrics as text, "-" for the standard input, or a URL.
	Metrics string
	// Prometheus is the URL of a server that has these metrics.
	Prometheus string
	// TokenFile and CAFile are for both.
	TokenFile, CAFile string
}

// Flags adds the flags.
func (p *LivePrices) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.Metrics, "prices-metrics", "",
		"A file with the metrics of Karpenter or OpenCost as text, - for the standard input, or the URL at which they are served.")
	flags.StringVar(&p.Prometheus, "prices-prometheus", "", "The URL of a Prometheus server that has the metrics of Karpenter or OpenCost.")
	flags.StringVar(&p.TokenFile, "prices-token-file", "", "A file with a bearer token for the URL of prices.")
	flags.StringVar(&p.CAFile, "prices-ca-file", "", "A file with the certificates, as PEM, that verify the URL of prices.")
}

// Check returns an error for flags that exclude each other.
func (p *LivePrices) Check() error {
	switch {
	case p.Metrics != "" && p.Prometheus != "":
		return errors.New("--prices-metrics and --prices-prometheus are both set: use one of them")
	case p.Prometheus == "" && !p.isURL() && (p.TokenFile != "" || p.CAFile != ""):
		return errors.New("--prices-token-file and --prices-ca-file require a URL in --prices-metrics or --prices-prometheus")
	}
	return nil
}

func (p *LivePrices) isURL() bool {
	return strings.HasPrefix(p.Metrics, "http://") || strings.HasPrefix(p.Metrics, "https://")
}

// Read reads the prices, nil if no flag is set.
func (p *LivePrices) Read(ctx context.Context, in io.Reader, now time.Time) (m *prices.Metrics, err error) {
	name := p.Metrics
	switch {
	case p.Prometheus != "":
		if m, err = p.ask(ctx, now); err != nil {
			return nil, fmt.Errorf("--prices-prometheus: %w", err)
		}
		return m, nil
	case name == "":
		return nil, nil
	case name == "-":
		m, err = prices.ReadMetrics("the standard input", now, in)
	case p.isURL():
		err = prometheus.ReadPage(ctx, p.server(name), func(page io.Reader) error {
			m, err = prices.ReadMetrics("its metrics", now, page)
			return err
		})
		name = "--prices-metrics" // a URL may have a password in it
	default:
		m, err = readMetricsFile(name, now)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func (p *LivePrices) server(address string) prometheus.Config {
	return prometheus.Config{
		Address: address, BearerTokenFile: p.TokenFile, CAFile: p.CAFile, Timeout: pricesTimeout, MaxResponse: maxPricesBytes,
	}
}

func (p *LivePrices) ask(ctx context.Context, now time.Time) (*prices.Metrics, error) {
	server, err := prometheus.New(p.server(p.Prometheus))
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

// readMetricsFile reads metrics that are as old as their file.
func readMetricsFile(name string, now time.Time) (*prices.Metrics, error) {
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
