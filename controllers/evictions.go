// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/evictions"
	"berth.dev/berth/controllers/mix/rebalance"
	"berth.dev/berth/internal/mix/governing"
)

// addEvictions adds the controller that answers requests to evict pods, if the API server has them at the start. Otherwise nothing is
// watched.
func (p *parts) addEvictions() error {
	served, err := evictions.Served(p.kube.Discovery())
	if apierrors.IsForbidden(err) {
		p.mgr.GetLogger().Info("Discovery is not allowed: requests to evict pods are not answered", "error", err.Error())
		return nil
	}
	if err != nil || !served {
		return err
	}
	p.evictions = evictions.New(evictions.Options{
		State: p.clusterState, Client: p.kube, Clock: clock.RealClock{}, Synced: p.synced,
		Changed:    func(key governing.GroupKey) { p.rebalancer.Changed(key) },
		Namespaces: p.cfg.Namespaces, DryRun: p.cfg.DryRun,
	})
	p.retunes = append(p.retunes, func(cfg *controller.Configuration) { p.evictions.SetDryRun(cfg.DryRun) })
	return p.mgr.Add(p.evictions)
}

// requests are those that the rebalancer follows, nil for none.
func (p *parts) requests() rebalance.Requests {
	if p.evictions == nil {
		return nil
	}
	return p.evictions
}

// surges returns a function that reports whether pods in a namespace are released before they go, if a mix governs them; nil where
// requests to evict them are not answered.
func (p *parts) surges() func(namespace string, m *governing.Mix) bool {
	if p.evictions == nil {
		return nil
	}
	var byDefault atomic.Value
	byDefault.Store(p.cfg.Mix.Rebalance.Strategy)
	p.retunes = append(p.retunes, func(cfg *controller.Configuration) { byDefault.Store(cfg.Mix.Rebalance.Strategy) })
	namespaces := p.cfg.Namespaces
	return func(namespace string, m *governing.Mix) bool {
		strategy := m.Strategy
		if strategy == "" {
			strategy = byDefault.Load().(v1alpha1.RebalanceStrategy) //nolint:forcetypeassert // nothing else is stored
		}
		return strategy != v1alpha1.RebalanceStrategyEvict && (len(namespaces) == 0 || slices.Contains(namespaces, namespace))
	}
}
