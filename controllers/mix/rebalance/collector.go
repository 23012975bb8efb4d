// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// pausesDesc is a number of objects: their names would be labels without a bound.
var pausesDesc = prometheus.NewDesc("berth_mix_paused",
	"Pauses of moves, by scope: cluster (0 or 1), namespace or mix. Nothing is moved within a pause.", []string{"scope"}, nil)

var healthDesc = prometheus.NewDesc("berth_mix_health_gate",
	"The state of the health gate: 1 for the state that it is in, good, bad or unknown. Absent without a gate.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (c *Controller) Describe(ch chan<- *prometheus.Desc) {
	ch <- pausesDesc
	ch <- healthDesc
}

// Collect implements prometheus.Collector. Pauses that could not be read yet are no metric: they are not 0.
func (c *Controller) Collect(ch chan<- prometheus.Metric) {
	counts := c.Pauses.counts()
	var mixes v1alpha1.CapacityMixList
	if err := c.Reader.List(context.Background(), &mixes, client.UnsafeDisableDeepCopy); err == nil { // the cache's: it does not wait
		counts[rebalance.PausedMix] = 0
		for i := range mixes.Items {
			if r := mixes.Items[i].Spec.Rebalance; r != nil && r.Paused {
				counts[rebalance.PausedMix]++
			}
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(counts)) {
		ch <- prometheus.MustNewConstMetric(pausesDesc, prometheus.GaugeValue, float64(counts[scope]), string(scope))
	}
	if h := c.Health.Now(); h != nil {
		for _, state := range rebalance.HealthStates {
			value := 0.0
			if h.State == state {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(healthDesc, prometheus.GaugeValue, value, string(state))
		}
	}
}

// counts are the pauses of the cluster and of namespaces, none before they were read.
func (p *Pauses) counts() map[rebalance.PauseScope]int {
	counts := map[rebalance.PauseScope]int{}
	if of := p.Of(""); p == nil || len(of) > 0 && of[0].Unknown {
		return counts
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	counts[rebalance.PausedCluster], counts[rebalance.PausedNamespace] = 0, len(p.namespaces)
	if p.cluster != nil {
		counts[rebalance.PausedCluster] = 1
	}
	return counts
}
