// SPDX-License-Identifier: Apache-2.0

package events

import (
	"sync"

	"k8s.io/component-base/metrics"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

var invalidPolicies = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem: "berth_scheduler", Name: "invalid_policies_total", StabilityLevel: metrics.ALPHA,
	Help: "Mixes that could not be read and were ignored, by kind: annotation or capacitymix.",
}, []string{"kind"})

var registerMetrics = sync.OnceFunc(func() { schedulermetrics.RegisterMetrics(invalidPolicies) })
