// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"sync/atomic"

	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/evictions"
	"berth.dev/berth/internal/mix/governing"
)

// addEvictions adds the controller that answers requests to evict pods. As long as the API server has none, nothing is watched.
func (p *parts) addEvictions() error {
	served := evictions.NewServed(p.kube.Discovery())
	if err := p.mgr.Add(served); err != nil {
		return err
	}
	p.evictions = evictions.New(evictions.Options{
		State: p.clusterState, Client: p.kube, Clock: clock.RealClock{}, Synced: p.synced, Served: served,
		Changed:    func(key governing.GroupKey) { p.rebalancer.Changed(key) },
		Namespaces: p.cfg.Namespaces, DryRun: p.cfg.DryRun,
	})
	p.retunes = append(p.retunes, func(cfg *controller.Configuration) { p.evictions.SetDryRun(cfg.DryRun) })
	return p.mgr.Add(p.evictions)
}

// surges returns a function that reports whether pods in a namespace are released before they go, if a mix governs them, and requests to
// evict them are answered; nil where no mixes are reconciled.
func (p *parts) surges() func(namespace string, m *governing.Mix) bool {
	if p.evictions == nil {
		return nil
	}
	served := p.evictions.Served
	var byDefault atomic.Value
	byDefault.Store(p.cfg.Mix.Rebalance.Strategy)
	p.retunes = append(p.retunes, func(cfg *controller.Configuration) { byDefault.Store(cfg.Mix.Rebalance.Strategy) })
	namespaces := p.cfg.Namespaces
	return func(namespace string, m *governing.Mix) bool {
		if !served.Is() {
			return false
		}
		strategy := m.Strategy
		if strategy == "" {
			strategy = byDefault.Load().(v1alpha1.RebalanceStrategy) //nolint:forcetypeassert // nothing else is stored
		}
		return strategy != v1alpha1.RebalanceStrategyEvict && (len(namespaces) == 0 || slices.Contains(namespaces, namespace))
	}
}
