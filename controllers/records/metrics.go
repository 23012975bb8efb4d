// SPDX-License-Identifier: Apache-2.0

package records

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	statusWrites = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_records_status_writes_total",
		Help: "Writes of the status of DeploymentRecords.",
	})
	recordsDesc = prometheus.NewDesc("berth_records", "DeploymentRecords, by phase.", []string{"phase"}, nil)
)

func init() { metrics.Registry.MustRegister(statusWrites) }
