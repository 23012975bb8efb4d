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
	restarts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_environment_restarts_total", Help: "Restarts of containers of Environments, by the reason of their end.",
	}, []string{"namespace", "environment", "component", "reason"})
	environmentsDesc = prometheus.NewDesc("berth_environments", "Environments, by phase.", []string{"phase"}, nil)

	cpuUsageDesc = prometheus.NewDesc("berth_environment_cpu_usage_cores", "CPU that the containers of a component use.",
		[]string{"namespace", "environment", "component"}, nil)
	cpuLimitDesc = prometheus.NewDesc("berth_environment_cpu_limit_cores", "CPU limits of the containers of a component.",
		[]string{"namespace", "environment", "component"}, nil)
	memoryUsageDesc = prometheus.NewDesc("berth_environment_memory_usage_bytes", "Memory that the containers of a component use.",
		[]string{"namespace", "environment", "component"}, nil)
	memoryLimitDesc = prometheus.NewDesc("berth_environment_memory_limit_bytes", "Memory limits of the containers of a component.",
		[]string{"namespace", "environment", "component"}, nil)
)

func init() { metrics.Registry.MustRegister(phases, starts, orphaned, restarts) }
