// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/mix/pricefeed"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/records/prometheus"
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
	live := p.Live()
	switch {
	case p.Metrics != "" && p.Prometheus != "":
		return errors.New("--prices-metrics and --prices-prometheus are both set: use one of them")
	case p.Prometheus == "" && !live.IsURL() && (p.TokenFile != "" || p.CAFile != ""):
		return errors.New("--prices-token-file and --prices-ca-file require a URL in --prices-metrics or --prices-prometheus")
	}
	return nil
}

// Live is what the flags name.
func (p *LivePrices) Live() pricefeed.Live {
	return pricefeed.Live{
		Metrics: p.Metrics, Prometheus: p.Prometheus, From: prometheus.Endpoint{
			BearerTokenFile: p.TokenFile, CAFile: p.CAFile, Timeout: pricefeed.Timeout, MaxResponse: pricefeed.MaxMetrics,
		},
		MetricsField: "--prices-metrics", PrometheusField: "--prices-prometheus",
	}
}

// CheckFeed is Check for a program that reads the prices from time to time.
func (p *LivePrices) CheckFeed() error {
	if p.Metrics == "-" {
		return errors.New("--prices-metrics is -: prices are read again and again, so it must be a file or a URL")
	}
	return p.Check()
}

// Feed returns a feed of the prices that the flags name. The own file must be valid now: a later change of it that is not is reported.
// What needs no network is read at once.
func Feed(ctx context.Context, own *Prices, live *LivePrices, report func(error)) (*pricefeed.Feed, error) {
	if _, err := own.Options(); err != nil {
		return nil, err
	}
	of := live.Live()
	f := pricefeed.New(pricefeed.Options{Own: own.Own(), Live: of, Interval: feedInterval, Clock: clock.RealClock{}, Report: report})
	if !of.IsURL() && of.Prometheus == "" {
		f.Read(ctx)
	}
	return f, nil
}

// feedInterval is the time between two readings of prices.
const feedInterval = 5 * time.Minute

// Read reads the prices, nil if no flag is set.
func (p *LivePrices) Read(ctx context.Context, in io.Reader, now time.Time) (*prices.Metrics, error) {
	live := p.Live()
	return live.Read(ctx, in, now)
}
