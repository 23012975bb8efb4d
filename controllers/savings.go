// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/mix/status"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/pricefeed"
)

// offeringsOf is what the cluster state keeps of what nodes were sold as: prices of a user can depend on each label of a node.
func offeringsOf(cfg *controller.Configuration) clusterstate.Offerings {
	switch s := &cfg.Mix.Savings; {
	case s.IntervalSeconds == 0 || !cfg.Runs(controller.ControllerMix):
		return clusterstate.NoOfferings
	case s.PricesFile != "":
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
			Metrics: s.MetricsURL, Prometheus: s.PrometheusURL, TokenFile: s.BearerTokenFile, CAFile: s.CAFile, Timeout: seconds(s.TimeoutSeconds),
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
	c := &status.SavingsCollector{Workloads: entries, Node: p.clusterState.Node, Prices: feed.Now, Clock: clock.RealClock{}}
	if err := metrics.Registry.Register(c); err != nil {
		return err
	}
	return p.mgr.Add(manager.RunnableFunc(feed.Start))
}
