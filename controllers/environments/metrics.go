// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	phases = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_environments_phase_transitions_total", Help: "Changes of the phase of Environments, by the new phase.",
	}, []string{"phase"})
	starts = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "berth_environments_start_duration_seconds", Help: "Time from the start of an Environment until every component was ready.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 12),
	})
	orphaned = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_environment_orphans", Help: "Objects of Environments that no longer exist, by state, as of the last search.",
	}, []string{"state"})
	environmentsDesc = prometheus.NewDesc("berth_environments", "Environments, by phase.", []string{"phase"}, nil)
)

func init() { metrics.Registry.MustRegister(phases, starts, orphaned) }
