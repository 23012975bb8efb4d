// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync"

	"k8s.io/component-base/metrics"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

var podsWithoutSlot = metrics.NewCounter(&metrics.CounterOpts{
	Subsystem: "berth_scheduler", Name: "pods_bound_without_slot_total", StabilityLevel: metrics.ALPHA,
	Help: "Pods that held a slot and were bound without it: CapacityMix does not stand before DefaultBinder under bind.",
})

var registerMetrics = sync.OnceFunc(func() { schedulermetrics.RegisterMetrics(podsWithoutSlot) })
