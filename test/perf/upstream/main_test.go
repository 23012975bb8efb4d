// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	// The plugins' arguments, so that a profile can have them.
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"

	_ "berth.dev/berth/internal/mix/arguments/scheme"
	"berth.dev/berth/test/perf/bench"
)

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// BenchmarkScheduling is the process of a peer: TestMeasure starts it.
func BenchmarkScheduling(b *testing.B) {
	text := os.Getenv(envSpec)
	if text == "" {
		b.Skip(envSpec + " is not set: TestMeasure sets it")
	}
	var s spec
	require.NoError(b, json.Unmarshal([]byte(text), &s))
	r := &recorder{}
	perf.RunBenchmarkPerfScheduling(b, "performance-config.yaml", "berth", registry(r, s),
		perf.WithPrepareFn(func(ctx ktesting.TContext) error { return prepare(ctx, s) }))
	v := r.values(s.Replaces)
	me, err := bench.ReadProcess(os.Getpid())
	require.NoError(b, err)
	v["peak_rss_mib"] = me.PeakBytes / (1 << 20)
	out, err := json.Marshal(v)
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(s.Out, out, 0o600))
}
