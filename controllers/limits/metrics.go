// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var statusWrites = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "berth_limits_status_writes_total", Help: "Writes of the status of ResourceLimits.",
})

func init() { metrics.Registry.MustRegister(statusWrites) }
