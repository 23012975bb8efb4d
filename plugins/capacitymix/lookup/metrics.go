// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"sync"

	"k8s.io/component-base/metrics"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

var (
	ownerReads = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "berth_scheduler", Name: "owner_live_reads_total", StabilityLevel: metrics.ALPHA,
		Help: "Live reads of a pod's owner that the caches had not seen yet.",
	})
	mixLists = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: "berth_scheduler", Name: "mix_live_lists_total", StabilityLevel: metrics.ALPHA,
		Help: "Live lists of a namespace's CapacityMixes for new workloads that none of the known ones governs.",
	})
)

var registerMetrics = sync.OnceFunc(func() { schedulermetrics.RegisterMetrics(ownerReads, mixLists) })
