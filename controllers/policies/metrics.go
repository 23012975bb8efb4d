// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var statusWrites = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "berth_policies_status_writes_total", Help: "Writes of the status of SchedulingPolicies.",
})

func init() { metrics.Registry.MustRegister(statusWrites) }
