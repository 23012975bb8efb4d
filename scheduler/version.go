// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"berth.dev/berth/internal/config/buildinfo"
)

func init() {
	build := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "berth_build_info", StabilityLevel: metrics.ALPHA,
		Help: "1, with the version of berth-scheduler and of Go as labels.",
	}, []string{"version", "go_version"})
	legacyregistry.MustRegister(build)
	build.WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
}

// printVersion prints Berth's version if --version requests one. The stock
// scheduler's line, with the version of Kubernetes, follows it.
func printVersion(out io.Writer, name string, flags *pflag.FlagSet) {
	if flag := flags.Lookup("version"); flag != nil && (flag.Value.String() == "true" || flag.Value.String() == "raw") {
		fmt.Fprintln(out, buildinfo.Line(name))
	}
}
