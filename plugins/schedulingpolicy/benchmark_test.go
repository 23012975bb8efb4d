// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
)

// BenchmarkCycle is PreFilter to NormalizeScore for 500 feasible of 5,000 nodes with 10,000 pods: what the scheduler finds by
// default in such a cluster.
func BenchmarkCycle(b *testing.B) {
	nodes := fleetOf(5_000)
	var pods []*corev1.Pod
	for i := range 10_000 {
		pods = append(pods, pod(fmt.Sprint("r", i), nodes[i%len(nodes)].Name))
	}
	for _, name := range []v1alpha1.ScorePreset{"", "Balanced", "Pack", "Spread", "Locality", "Cost"} {
		b.Run("preset="+string(name), func(b *testing.B) {
			f := newFixture(b, noArgs(), nodes...)
			f.snapshot(pods...)
			if name != "" {
				f.set(policy(preset(name)))
			}
			infos, x := f.infos(b), pod("x", "")
			feasible := infos[:500]
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				state := framework.NewCycleState()
				if _, status, _ := f.framework.RunPreFilterPlugins(f.Ctx, state, x); !status.IsSuccess() {
					b.Fatal(status)
				}
				if status := f.plugin.PreScore(f.Ctx, state, x, feasible); !status.IsSuccess() && !status.IsSkip() {
					b.Fatal(status)
				}
				if c := read(state); c != nil {
					c.table.selected, c.table.tied = c.governor.chooser.Choose(c.table.candidates)
				}
			}
		})
	}
}

// A pod without a policy costs a look-up of its namespace.
func TestAPodWithoutAPolicyCostsNoMemory(t *testing.T) {
	f := newFixture(t, noArgs(), fleetOf(3)...)
	state, x := framework.NewCycleState(), pod("x", "")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = f.plugin.PreFilter(f.Ctx, state, x, nil)
		_ = f.plugin.PreScore(f.Ctx, state, x, nil)
		_ = f.plugin.Reserve(f.Ctx, state, x, "n00")
		f.plugin.Unreserve(f.Ctx, state, x, "n00")
		f.plugin.PostBind(f.Ctx, state, x, "n00")
		_, _ = f.plugin.SignPod(f.Ctx, x)
	}))
}
