// SPDX-License-Identifier: Apache-2.0

package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	namespace = "berth"
	subsystem = "service"
)

var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
		Help: "Number of finished calls, by service, method and code.",
	}, []string{"service", "method", "code"})

	durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "request_duration_seconds",
		Help:    "Duration of calls in seconds, by service and method.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30, 60},
	}, []string{"service", "method"})

	inFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "requests_in_flight",
		Help: "Number of calls in flight.",
	})

	panics = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "panics_total",
		Help: "Number of calls that panicked.",
	})

	refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "rejections_total",
		Help: "Number of calls that were rejected, and of connections that were closed for a new one, by the limit that was reached.",
	}, []string{"limit"})

	openConnections = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "connections",
		Help: "Number of open connections.",
	})
)

func init() {
	metrics.Registry.MustRegister(requests, durations, inFlight, panics, refusals, openConnections)
}
