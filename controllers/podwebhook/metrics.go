// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var admissions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_webhook_pods_total",
	Help: "Pods that the webhook received, by outcome: sized, missing (the limit does not exist), none (no limit), skipped, error.",
}, []string{"outcome"})

var steered = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "berth_webhook_mixes_total",
	Help: "Pods that the webhook received, by what their mix made of them: gated, own-gate (it has the gate already), " +
		"tolerating (it got tolerations), as-it-is (the mix requests nothing), pinned (it names a capacity type), " +
		"ungoverned (no mix), unknown (the mixes were not read yet).",
}, []string{"outcome"})

func init() {
	metrics.Registry.MustRegister(admissions, steered)
	for _, outcome := range []string{outcomeSized, outcomeMissing, outcomeNone, outcomeSkipped, outcomeError} {
		admissions.WithLabelValues(outcome)
	}
	for _, outcome := range []string{
		outcomeGated, outcomeOwnGate, outcomeTolerating, outcomeAsItIs, outcomePinned, outcomeUngoverned, outcomeUnknown,
	} {
		steered.WithLabelValues(outcome)
	}
}
