// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"

	"k8s.io/component-base/metrics"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

const metricsSubsystem = "berth_scheduler"

// The plugin's metrics, on the scheduler's own /metrics. No label names a pod,
// a node or a workload.
var (
	placements = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "placements_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods bound with a slot, by the capacity type of the slot (wants) and of the node (on). They differ where a pod borrowed.",
	}, []string{"slot_type", "node_type"})
	stageTransitions = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "stage_transitions_total", StabilityLevel: metrics.ALPHA,
		Help: "Attempts that found no node, by the stage of the attempt (from) and of the next (to).",
	}, []string{"from", "to"})
	invalidPolicies = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "invalid_policies_total", StabilityLevel: metrics.ALPHA,
		Help: "Mixes that could not be read and were ignored, by kind: annotation or capacitymix.",
	}, []string{"kind"})
	ownerReads = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "owner_live_reads_total", StabilityLevel: metrics.ALPHA,
		Help: "Live reads of a pod's owner that the caches had not seen yet.",
	})
	mixInquiries = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "mix_live_lists_total", StabilityLevel: metrics.ALPHA,
		Help: "Live lists of a namespace's CapacityMixes for new workloads that none of the known ones governs.",
	})
	gatesOpened = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "ungated_pods_total", StabilityLevel: metrics.ALPHA,
		Help: "Scheduling gates opened, by the capacity type that the pod was limited to: spot, on-demand, or none for a pod without a mix or with a type of its own.",
	}, []string{"capacity_type"})
	gateFailures = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "ungate_failures_total", StabilityLevel: metrics.ALPHA,
		Help: "Attempts to open a scheduling gate that the API server refused or did not answer; each is made again.",
	})
	spotFallbacks = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "spot_fallbacks_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods with a scheduling gate and a spot slot that were limited to on-demand, by why: successor of a pod that waited for spot without success, or circuit-breaker.",
	}, []string{"reason"})
	spotPodsDeleted = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "spot_pods_deleted_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods with a scheduling gate that found no spot node within the wait of their mix and were deleted, so that their successor runs on on-demand.",
	})
	spotBreakers = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: metricsSubsystem, Name: "spot_circuit_breakers", StabilityLevel: metrics.ALPHA,
		Help: "Mixes for whose pods with a scheduling gate spot is not tried (open), or by a few of them only (half-open). Of the scheduler that leads.",
	}, []string{"state"})
	unmarkedPods = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: metricsSubsystem, Name: "pods_bound_without_slot_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods that held a slot and were bound without it: CapacityMix does not stand before DefaultBinder under bind.",
	})
)

var registerMetrics = sync.OnceFunc(func() {
	schedulermetrics.RegisterMetrics(placements, stageTransitions, invalidPolicies, ownerReads, mixInquiries, gatesOpened, gateFailures, spotFallbacks, spotPodsDeleted, spotBreakers, unmarkedPods)
})
