// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/mix/pricefeed"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/records/prometheus"
)

// Prices are where the prices of nodes are from, as flags.
type Prices struct {
	pricefeed.Own
	// Metrics is a file with metrics of programs in the cluster as text, "-" for the standard input, or a URL.
	Metrics string
	// Prometheus is the URL of a server that has these metrics.
	Prometheus string
	// TokenFile and CAFile are for both.
	TokenFile, CAFile string
}

// Flags adds the flags.
func (p *Prices) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.File, "prices", "", "A file with your prices, as YAML or JSON. See docs/savings.md.")
	flags.Float64Var(&p.Discount, "discount", 0, "By how many percent your on-demand prices are lower than those of public lists.")
	flags.StringVar(&p.Metrics, "prices-metrics", "",
		"A file with the metrics of Karpenter or OpenCost as text, - for the standard input, or the URL at which they are served.")
	flags.StringVar(&p.Prometheus, "prices-prometheus", "", "The URL of a Prometheus server that has the metrics of Karpenter or OpenCost.")
	flags.StringVar(&p.TokenFile, "prices-token-file", "", "A file with a bearer token for the URL of prices.")
	flags.StringVar(&p.CAFile, "prices-ca-file", "", "A file with the certificates, as PEM, that verify the URL of prices.")
}

// Check returns an error for a flag that is out of its bounds, and for flags that exclude each other.
func (p *Prices) Check() error { return errors.Join(p.checkDiscount(), p.checkLive()) }

// CheckFeed is Check for a program that reads the prices from time to time.
func (p *Prices) CheckFeed() error {
	if p.Metrics == "-" {
		return errors.Join(p.checkDiscount(),
			errors.New("--prices-metrics is -: prices are read again and again, so it must be a file or a URL"))
	}
	return p.Check()
}

func (p *Prices) checkDiscount() error {
	if !(p.Discount >= 0 && p.Discount < 100) {
		return fmt.Errorf("--discount is %v: it must be at least 0 and less than 100", p.Discount)
	}
	return nil
}

func (p *Prices) checkLive() error {
	live := p.live()
	switch {
	case p.Metrics != "" && p.Prometheus != "":
		return errors.New("--prices-metrics and --prices-prometheus are both set: use one of them")
	case p.Prometheus == "" && !live.IsURL() && (p.TokenFile != "" || p.CAFile != ""):
		return errors.New("--prices-token-file and --prices-ca-file require a URL in --prices-metrics or --prices-prometheus")
	}
	return nil
}

func (p *Prices) live() pricefeed.Live {
	return pricefeed.Live{
		Metrics: p.Metrics, Prometheus: p.Prometheus, From: prometheus.Endpoint{
			BearerTokenFile: p.TokenFile, CAFile: p.CAFile, Timeout: pricefeed.Timeout, MaxResponse: pricefeed.MaxMetrics,
		},
		MetricsField: "--prices-metrics", PrometheusField: "--prices-prometheus",
	}
}

// Options reads the prices that the flags name. In is the standard input.
func (p *Prices) Options(ctx context.Context, in io.Reader, now time.Time) (prices.Options, error) {
	options, err := p.Own.Options()
	if err != nil {
		return options, err
	}
	live := p.live()
	options.Metrics, err = live.Read(ctx, in, now)
	return options, err
}

// feedInterval is the time between two readings of prices.
const feedInterval = 5 * time.Minute

// Feed returns a feed of the prices that the flags name. The own file must be valid now: a later change of it that is not is reported.
// What needs no network is read at once.
func (p *Prices) Feed(ctx context.Context, report func(error)) (*pricefeed.Feed, error) {
	if _, err := p.Own.Options(); err != nil {
		return nil, err
	}
	live := p.live()
	f := pricefeed.New(pricefeed.Options{Own: p.Own, Live: live, Interval: feedInterval, Clock: clock.RealClock{}, Report: report})
	if !live.IsURL() && live.Prometheus == "" {
		f.Read(ctx)
	}
	return f, nil
}
