// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/pricefeed"
	"berth.dev/berth/internal/mix/prices"
	"berth.dev/berth/internal/records/prometheus"
)

// offeringsOf is what the cluster state keeps of what nodes were sold as: prices of a user and of NodeOverlays can depend on each label.
func offeringsOf(cfg *controller.Configuration) clusterstate.Offerings {
	switch s := &cfg.Mix.Savings; {
	case s.IntervalSeconds == 0 || !cfg.Runs(controller.ControllerMix):
		return clusterstate.NoOfferings
	case s.PricesFile != "" || s.NodeOverlays:
		return clusterstate.OfferingsWithLabels
	}
	return clusterstate.OfferingsWithoutLabels
}

// addSavings adds the metrics of what mixes save. Prices are read where this process leads.
func (p *parts) addSavings(entries *workloads.Store) error {
	s := &p.cfg.Mix.Savings
	if s.IntervalSeconds == 0 {
		return nil
	}
	log := p.mgr.GetLogger().WithName("prices")
	feed := pricefeed.New(pricefeed.Options{
		Own: pricefeed.Own{File: s.PricesFile, Discount: float64(s.DiscountPercent)},
		Live: pricefeed.Live{
			Metrics: s.MetricsURL, Prometheus: s.PrometheusURL, From: prometheus.Endpoint{
				BearerTokenFile: s.BearerTokenFile, CAFile: s.CAFile, Timeout: seconds(s.TimeoutSeconds), MaxResponse: pricefeed.MaxMetrics,
			},
			MetricsField: "mix.savings.metricsURL", PrometheusField: "mix.savings.prometheusURL",
		},
		Interval: seconds(s.IntervalSeconds), Clock: clock.RealClock{},
		Report: func(err error) {
			if err != nil {
				log.Error(err, "Could not read the prices of nodes: without a reading of the last day, savings are unknown")
				return
			}
			log.Info("Read the prices of nodes again")
		},
	})
	if s.NodeOverlays {
		c, err := client.New(p.mgr.GetConfig(), client.Options{Scheme: p.mgr.GetScheme(), Mapper: p.mgr.GetRESTMapper()})
		if err != nil {
			return err
		}
		feed.AddOverlays(func(ctx context.Context) (*prices.Overlays, error) {
			o, err := pricefeed.Overlays(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("mix.savings.nodeOverlays: %w", err) // a missing right, too: the source was configured
			}
			return o, nil
		})
	}
	c := &status.SavingsCollector{Workloads: entries, Node: p.clusterState.Node, Prices: feed.Now, Clock: clock.RealClock{}}
	if err := metrics.Registry.Register(c); err != nil {
		return err
	}
	return p.mgr.Add(manager.RunnableFunc(feed.Start))
}
