// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var admissions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_webhook_pods_total",
	Help: "Pods that the webhook was asked about, by outcome: sized, missing (the limit does not exist), none (no limit), skipped, error.",
}, []string{"outcome"})

func init() {
	metrics.Registry.MustRegister(admissions)
	for _, outcome := range []string{outcomeSized, outcomeMissing, outcomeNone, outcomeSkipped, outcomeError} {
		admissions.WithLabelValues(outcome)
	}
}
