// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// collectTimeout bounds a read from the cache, which may not be filled yet.
const collectTimeout = time.Second

// Collector counts the environments in each phase. It reads from the cache.
type Collector struct{ Reader client.Reader }

// Describe implements prometheus.Collector.
func (*Collector) Describe(ch chan<- *prometheus.Desc) { ch <- environmentsDesc }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var all v1alpha1.EnvironmentList
	if err := c.Reader.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return // not filled yet
	}
	n := map[v1alpha1.EnvironmentPhase]int{}
	for p := range reasons {
		n[p] = 0
	}
	for i := range all.Items {
		n[cmp.Or(all.Items[i].Status.Phase, v1alpha1.EnvironmentPending)]++
	}
	for phase, count := range n {
		ch <- prometheus.MustNewConstMetric(environmentsDesc, prometheus.GaugeValue, float64(count), string(phase))
	}
}
