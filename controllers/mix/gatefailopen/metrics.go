// SPDX-License-Identifier: Apache-2.0

package gatefailopen

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/apis/v1alpha1"
)

var (
	ungated = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_mix_gates_failed_open_total", Help: "Scheduling gates that the controller removed without a slot, by reason: NoLeader.",
	}, []string{"reason"})
	waitingPods = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_mix_gated_pods", Help: "Pods with the scheduling gate, which wait for their slot; of the leader only.",
	})
)

func init() {
	metrics.Registry.MustRegister(ungated, waitingPods)
	ungated.WithLabelValues(v1alpha1.UngateReasonNoLeader) // so that a rate has a zero to start from
}
