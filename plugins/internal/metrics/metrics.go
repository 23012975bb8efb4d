// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics of the plugins, on the scheduler's own /metrics.
// No label has a pod, a node or a workload.
package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "berth_scheduler"

// Metrics of CapacityMix; their help describes them.
var (
	Placements = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "placements_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods bound with a slot, by the capacity type of the slot (slot_type) and of the node (node_type). " +
			"They differ where a pod borrowed.",
	}, []string{"slot_type", "node_type"})
	StageTransitions = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "stage_transitions_total", StabilityLevel: metrics.ALPHA,
		Help: "Attempts that found no node, by the stage of the attempt (from) and of the next (to).",
	}, []string{"from", "to"})
	PodsWithoutSlot = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "pods_bound_without_slot_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods that held a slot and were bound without it: CapacityMix does not stand before DefaultBinder under bind.",
	})
	OwnerReads = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "owner_live_reads_total", StabilityLevel: metrics.ALPHA,
		Help: "Live reads of a pod's owner that the caches had not seen yet.",
	})
	MixLists = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "mix_live_lists_total", StabilityLevel: metrics.ALPHA,
		Help: "Live lists of a namespace's CapacityMixes for new workloads that none of the known ones governs.",
	})
	InvalidMixes = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "invalid_mixes_total", StabilityLevel: metrics.ALPHA,
		Help: "Mixes that could not be read and were ignored, by kind: annotation or capacitymix.",
	}, []string{"kind"})
	UngatedPods = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "ungated_pods_total", StabilityLevel: metrics.ALPHA,
		Help: "Scheduling gates removed, by the capacity type that the pod was limited to: " +
			"spot, on-demand, or none for a pod without a mix or with a type of its own.",
	}, []string{"capacity_type"})
	UngateFailures = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "ungate_failures_total", StabilityLevel: metrics.ALPHA,
		Help: "Patches that remove a scheduling gate and that the API server rejected or did not answer. Each is retried.",
	})
	SpotFallbacks = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "spot_fallbacks_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods with a scheduling gate and a spot slot that were limited to on-demand, by why: " +
			"successor of a pod that waited for spot without success, or circuit-breaker.",
	}, []string{"reason"})
	SpotPodsDeleted = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "spot_pods_deleted_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods with a scheduling gate that found no spot node and were deleted, so that their successor runs on on-demand, by what " +
			"ended their wait: its time (wait), or a report of an autoscaler (karpenter, cluster-autoscaler).",
	}, []string{"cause"})
	SpotCircuitBreakers = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "spot_circuit_breakers", StabilityLevel: metrics.ALPHA,
		Help: "Circuit breakers of mixes by which pods with a scheduling gate do not wait for spot nodes (open), or one of them does " +
			"(half-open). Of the scheduler that leads.",
	}, []string{"state"})
	// QuarantinedDomains is a vector without labels: it has no series before the interruptions were read.
	QuarantinedDomains = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "quarantined_domains", StabilityLevel: metrics.ALPHA,
		Help: "Interruption domains whose spot nodes are avoided, because their provider reclaimed some.",
	}, nil)
)

// PolicyAttempts is of SchedulingPolicy.
var PolicyAttempts = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem: subsystem, Name: "policy_attempts_total", StabilityLevel: metrics.ALPHA,
	Help: "Attempts to schedule pods that a SchedulingPolicy or the defaultPolicy of the profile governs, by outcome: " +
		"Bound, BindFailed or Unschedulable.",
}, []string{"outcome"})

// Metrics of Reservation, of the scheduler that leads.
var (
	Reservations = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "reservations", StabilityLevel: metrics.ALPHA,
		Help: "Reservations, by the reason of the condition Reserved. Of the scheduler that leads.",
	}, []string{"reason"})
	ReservationReplicas = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "reservation_replicas", StabilityLevel: metrics.ALPHA,
		Help: "Replicas of Reservations that have not expired and are not used up, by state: capacity is held, a pod has used it, " +
			"or it is missing. Of the scheduler that leads.",
	}, []string{"state"})
)

// Register registers all metrics, once.
var Register = sync.OnceFunc(func() {
	legacyregistry.MustRegister(PolicyAttempts, Placements, StageTransitions, PodsWithoutSlot, OwnerReads, MixLists, InvalidMixes,
		UngatedPods, UngateFailures, SpotFallbacks, SpotPodsDeleted, SpotCircuitBreakers, QuarantinedDomains, Reservations,
		ReservationReplicas)
	for _, cause := range []string{"wait", "karpenter", "cluster-autoscaler"} {
		SpotPodsDeleted.WithLabelValues(cause) // so that the first one is an increase
	}
})
