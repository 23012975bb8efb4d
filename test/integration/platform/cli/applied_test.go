// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli/mix"
	"berth.dev/berth/internal/kube/disruption"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// On-demand has free capacity for five of the eight replicas that have to move, and one
// of the first of them must not be disturbed.
func TestThePlanIsWhatTheControllerThenDoes(t *testing.T) {
	w := begin(t, append(cluster.Nodes("spot", 2), cluster.Nodes("on-demand", 1, cpus("11"))...)...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.PodDisruptionBudget("web", builders.MaxUnavailable("1")), builders.Deployment("web", 20, builders.CPU("1")))
	w.RequireExact("web", split.New(70, 2), 20)
	w.WaitReady("web", 20)
	slots := w.Slots(w.Live("web"))
	kept := slots[18]
	testenv.Patch(w, kept, func(p *corev1.Pod) { p.Annotations[disruption.SafeToEvict] = "false" })

	me := user(w, "applier", editor)
	p := decode[mix.Plan](t, kubectl(w, me, "", "plan", "web", "--spot-percent=30", "-n", w.Namespace, "-o", "json"))
	require.Equal(t, 8, p.Workloads[0].WrongSide)
	require.Len(t, p.Moves, 5)
	require.Len(t, p.Blocked, 3)
	reasons := map[string]bool{}
	for _, b := range p.Blocked {
		reasons[b.Reason] = true
	}
	assert.Contains(t, reasons, string(rebalance.ReasonInsufficientCapacity))

	w.Controller(testenv.Impatient)
	cm := w.Mix("web")
	testenv.Patch(w, cm, func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 30 })
	w.WaitStatus("web", "all is moved that may be", func(s *v1alpha1.CapacityMixStatus) bool {
		return s.Actual.OnDemand == 11 && len(s.Workloads) == 1 && s.Workloads[0].Blocked != nil && reasons[s.Workloads[0].Blocked.Reason]
	})
	planned, evicted := make([]string, 0, len(p.Moves)), make([]string, 0, len(p.Moves))
	for _, m := range p.Moves {
		planned = append(planned, m.Pod)
	}
	for _, e := range w.Evictions() {
		require.True(t, e.OK(), "%s", e)
		evicted = append(evicted, e.Name)
	}
	assert.Equal(t, planned, evicted, "the same pods in the same order")
	assert.NotContains(t, evicted, kept.Name)
	w.Always(testenv.Short, "nothing more is evicted", func() (bool, string) { return len(w.Evictions()) == len(planned), fmt.Sprint(w.Evictions()) })
}
