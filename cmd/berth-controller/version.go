// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"berth.dev/berth/internal/config/buildinfo"
)

func init() {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_build_info",
		Help: "1, with the version of berth-controller and of Go as labels.",
	}, []string{"version", "go_version"})
	build.WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
	metrics.Registry.MustRegister(build)
}
