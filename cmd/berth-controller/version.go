// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func init() {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_build_info",
		Help: "1, with the version of berth-controller and of Go as labels.",
	}, []string{"version", "go_version"})
	build.WithLabelValues(version(), runtime.Version()).Set(1)
	metrics.Registry.MustRegister(build)
}

// version is what the go command found out when it built this: a tag, or a pseudo-version with the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func versionLine() string {
	return fmt.Sprintf("berth-controller %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
