// SPDX-License-Identifier: Apache-2.0

package interruptions

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// interrupted has a label with the signals of internal/mix/capacity, of which there are few.
var interrupted = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_mix_interruptions_total",
	Help: "Spot nodes of which their provider has announced that it reclaims them, by the signal.",
}, []string{"signal"})

var quarantinedDesc = prometheus.NewDesc("berth_mix_quarantined_domains",
	"Interruption domains that are in quarantine: berth-scheduler avoids their spot nodes. On the leader.", nil, nil)

func init() { metrics.Registry.MustRegister(interrupted) }

var _ prometheus.Collector = &Controller{}

// Describe implements prometheus.Collector.
func (c *Controller) Describe(ch chan<- *prometheus.Desc) { ch <- quarantinedDesc }

// Collect implements prometheus.Collector. Before the ConfigMap was read, there is no metric: it is not 0.
func (c *Controller) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	table := c.table
	c.mu.Unlock()
	if table == nil {
		return
	}
	until, _ := table.Quarantined(c.Clock.Now())
	ch <- prometheus.MustNewConstMetric(quarantinedDesc, prometheus.GaugeValue, float64(len(until)))
}
