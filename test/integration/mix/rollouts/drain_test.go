// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// terminating is how long evicted pods take to go: longer than their
// replacements take to be judged.
const terminating = 60 * time.Second

// drained is a Deployment whose on-demand pods have all been evicted from one
// node and are terminating.
type drained struct {
	*testenv.World
	mix     split.Mix
	record  *testenv.Recording
	evicted []corev1.Pod
}

// drainOnDemand places a Deployment while there is one on-demand node, adds
// others, and drains the first.
func drainOnDemand(t *testing.T, replicas, percent, floor int32, others ...cluster.NodeSpec) drained {
	t.Helper()
	w := testenv.New(t, append(cluster.Nodes("spot", 4), cluster.Nodes("on-demand", 1)...)...)
	d := drained{World: w, mix: split.New(percent, floor)}
	w.Create(builders.CapacityMix("web", percent, floor), builders.Deployment("web", replicas, builders.TerminatesFor(terminating)))
	w.WaitReady("web", int(replicas))
	w.RequireExact("web", d.mix, int(replicas))
	if len(others) > 0 {
		w.AddNodes(others...)
	}
	d.record = w.Record("web")
	d.evicted = w.Drain("on-demand-0")
	require.Len(t, d.evicted, d.mix.OnDemand(int(replicas)), "pods on the drained node")
	return d
}

// With its terminating pods counted, as a published peer counts them, the first
// case ends with 1 on-demand and 9 spot pods, the second with 1 and 19: the
// replacements of a drain are given to spot, and the floor with them.
func TestDrainingTheOnDemandNodeGivesNoneOfItsFloorToSpot(t *testing.T) {
	for _, c := range []struct{ replicas, percent, floor, wantOnDemand int32 }{
		{10, 70, 3, 3}, {20, 80, 4, 4},
	} {
		t.Run(fmt.Sprintf("%d replicas at %d%% floor %d, %d drained at once", c.replicas, c.percent, c.floor, c.wantOnDemand), func(t *testing.T) {
			d := drainOnDemand(t, c.replicas, c.percent, c.floor, cluster.Nodes("on-demand", 2)[1:]...)
			require.Len(t, d.evicted, int(c.wantOnDemand))
			pods := d.RequireExact("web", d.mix, int(c.replicas))
			d.RequireTerminating(d.evicted)
			require.Equal(t, int(c.wantOnDemand), d.SplitOf(pods).OnDemand)
			d.record.RequireOnTheirTypes(d.mix)
			require.Equal(t, d.mix.Spot(int(c.replicas)), d.record.MostOn(capacity.Spot), "most pods on spot at any instant")
		})
	}
}

func TestDrainedOnDemandReplicasWaitAndNeverRunOnSpot(t *testing.T) {
	d := drainOnDemand(t, 10, 70, 3)
	d.WaitSplit("web", "three replacements exist", testenv.Split{Pending: 3, Spot: 7})
	d.StaysSplit(testenv.Short, "web", "the replacements wait", testenv.Split{Pending: 3, Spot: 7})
	d.RequireTerminating(d.evicted)
	d.AddNodes(cluster.Nodes("on-demand", 2)[1:]...)
	d.RequireExact("web", d.mix, 10)
	d.RequireTerminating(d.evicted)
	d.record.RequireOnTheirTypes(d.mix)
}

func TestDrainedSpotReplicasReturnToSpotWhileItHasCapacity(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 20, builders.TerminatesFor(terminating)))
	w.WaitReady("web", 20)
	w.RequireExact("web", m, 20)
	record := w.Record("web")
	evicted := w.Drain("spot-0", "spot-1", "spot-2")
	require.NotEmpty(t, evicted, "pods on the drained nodes")
	w.RequireExact("web", m, 20)
	w.RequireTerminating(evicted)
	record.RequireOnTheirTypes(m)
	require.Equal(t, m.OnDemand(20), record.MostOn(capacity.OnDemand), "most pods on on-demand at any instant")
}

// A drain that a condition of the node reports (KEP-5683): its tool may cordon the node later, or never.
func TestADrainInProgressKeepsReplacementsFromAnUncordonedNode(t *testing.T) {
	w := testenv.New(t, append(cluster.Nodes("spot", 4), cluster.Nodes("on-demand", 1)...)...)
	m := split.New(70, 3)
	w.Create(builders.CapacityMix("web", 70, 3), builders.Deployment("web", 10, builders.TerminatesFor(terminating)))
	w.RequireExact("web", m, 10)
	w.SetNodeCondition("on-demand-0", corev1.NodeDrainInProgress, corev1.ConditionTrue)
	w.Create(builders.CapacityMix("probe", 0, 0), builders.Deployment("probe", 1, builders.OnNodesWith(corev1.LabelHostname, "on-demand-0")))
	for _, p := range w.WaitUnschedulable("probe", 1) {
		require.Contains(t, testenv.PodCondition(&p, corev1.PodScheduled).Message, "1 node(s) are departing")
	}

	record := w.Record("web")
	evicted := w.Evict("on-demand-0")
	require.Len(t, evicted, 3)
	w.WaitSplit("web", "the replacements wait for another on-demand node", testenv.Split{Pending: 3, Spot: 7})
	w.AddNodes(cluster.Nodes("on-demand", 2)[1:]...)
	for _, p := range w.Slots(w.RequireExact("web", m, 10)) {
		require.NotEqual(t, "on-demand-0", p.Spec.NodeName, p.Name)
	}
	w.RequireTerminating(evicted)
	record.RequireOnTheirTypes(m)

	w.SetNodeCondition("on-demand-0", corev1.NodeDrainInProgress, corev1.ConditionFalse)
	w.WaitBound("probe", 1)
}
