// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"

	"k8s.io/component-base/metrics"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// The plugin's metrics, on the scheduler's own /metrics. No label has a pod, a
// node or a workload. The packages below have their own.
var (
	placements = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "berth_scheduler", Name: "placements_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods bound with a slot, by the capacity type of the slot (slot_type) and of the node (node_type). " +
			"They differ where a pod borrowed.",
	}, []string{"slot_type", "node_type"})
	stageTransitions = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: "berth_scheduler", Name: "stage_transitions_total", StabilityLevel: metrics.ALPHA,
		Help: "Attempts that found no node, by the stage of the attempt (from) and of the next (to).",
	}, []string{"from", "to"})
)

var registerMetrics = sync.OnceFunc(func() { schedulermetrics.RegisterMetrics(placements, stageTransitions) })
