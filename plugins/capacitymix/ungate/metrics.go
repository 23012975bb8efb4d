// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"sync"

	"k8s.io/component-base/metrics"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

const subsystem = "berth_scheduler"

var (
	ungatedPods = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "ungated_pods_total", StabilityLevel: metrics.ALPHA,
		Help: "Scheduling gates opened, by the capacity type that the pod was limited to: " +
			"spot, on-demand, or none for a pod without a mix or with a type of its own.",
	}, []string{"capacity_type"})
	ungateFailures = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "ungate_failures_total", StabilityLevel: metrics.ALPHA,
		Help: "Patches that remove a scheduling gate and that the API server rejected or did not answer. Each is retried.",
	})
	spotFallbacks = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "spot_fallbacks_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods with a scheduling gate and a spot slot that were limited to on-demand, by why: " +
			"successor of a pod that waited for spot without success, or circuit-breaker.",
	}, []string{"reason"})
	spotPodsDeleted = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "spot_pods_deleted_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods with a scheduling gate that found no spot node within the wait of their mix and were deleted, " +
			"so that their successor runs on on-demand.",
	})
	spotCircuitBreakers = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "spot_circuit_breakers", StabilityLevel: metrics.ALPHA,
		Help: "Mixes for whose pods with a scheduling gate spot is not tried (open), or by a few of them only (half-open). " +
			"Of the scheduler that leads.",
	}, []string{"state"})
)

var registerMetrics = sync.OnceFunc(func() {
	schedulermetrics.RegisterMetrics(ungatedPods, ungateFailures, spotFallbacks, spotPodsDeleted, spotCircuitBreakers)
})
