// SPDX-License-Identifier: Apache-2.0

package storms_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// consolidate removes nodes as an autoscaler does: it taints them all, drains those that have pods, and deletes them.
func (f *field) consolidate(taint string, nodes ...cluster.NodeSpec) {
	f.T.Helper()
	for _, n := range nodes {
		f.ChangeNode(n.Name, func(o *corev1.Node) {
			o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})
		})
	}
	for _, n := range nodes {
		f.WaitGone(f.Evict(n.Name))
		f.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}})
	}
}

// breakers counts the circuit breakers of the scheduler that are not closed.
func (f *field) breakers() (n int) {
	f.T.Helper()
	for _, s := range []fallback.State{fallback.Open, fallback.HalfOpen} {
		n += f.Metric(f.Scheduler(), "berth_scheduler_spot_circuit_breakers", map[string]string{"state": string(s)})
	}
	return n
}

// Of twelve spot nodes, each time four or more go: more than the 30 % that would be a storm if they were lost.
func TestNodesThatAnAutoscalerRemovesAreNoStorm(t *testing.T) {
	f := newField(t, long)
	more := cluster.Nodes("spot", 6, func(o *cluster.NodeSpec) { o.Name = "more-" + o.Name })
	f.AddNodes(more...)
	f.Create(
		builders.CapacityMix("gated", 70, 2, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, 10)),
		builders.Deployment("gated", replicas, builders.Gated),
		builders.CapacityMix("other", 70, 2), builders.Deployment("other", replicas),
	)
	f.WaitRepaired("other", seventy, replicas, testenv.SettleTimeout)
	f.WaitExact("gated", seventy, replicas, testenv.SettleTimeout)
	for _, c := range []struct {
		taint string
		nodes []cluster.NodeSpec
		spot  int32
	}{
		{"ToBeDeletedByClusterAutoscaler", slices.Concat(more[:2], f.spot[:2]), 30},
		{"karpenter.sh/disrupted", slices.Concat(more[2:4], f.spot[2:3]), 60},
	} {
		before := len(f.EvictionsOf("other"))
		f.consolidate(c.taint, c.nodes...)
		began := time.Now()
		f.ChangeMix("other", builders.SpotPercent(c.spot))
		f.Reaches("the first move", before+1, func() int { return len(f.EvictionsOf("other")) })
		require.Less(t, f.EvictionsOf("other")[before].At.Sub(began), longQuiet, "moves wait for nothing to be over")
		f.WaitExact("other", split.New(c.spot, 2), replicas, recovery)
		f.WaitExact("gated", seventy, replicas, recovery)
		f.WaitExact("web", seventy, replicas, recovery)
		assert.False(t, f.storm(), c.taint)
	}
	assert.Zero(t, f.Metric(f.controller, "berth_mix_spot_storms_total", nil))
	assert.Zero(t, f.breakers(), "circuit breakers that are not closed")
	assert.Zero(t, f.Metric(f.Scheduler(), "berth_scheduler_spot_fallbacks_total", nil))
}
