// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestTheGroupsOfALeaderWorkerSetRunWhole(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("lws", 70, 2))
	o := newLeaderWorkers(w, "lws", 4)
	record := w.Record("lws")
	for _, groups := range []int{1, 3, 10, 13, 4, 10}[testenv.Length(2, 0):] {
		o.scaleTo(groups, m)
	}
	require.Equal(t, testenv.Split{Spot: 7 * 4, OnDemand: 3 * 4}, w.Split("lws"))
	requireUnitsWhole(w, record, w.Types(), groupKey)
	record.RequireOnTheirTypes(m)
}

func TestGroupsOfALeaderWorkerSetAreReplacedWhole(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("lws", 70, 2))
	o := newLeaderWorkers(w, "lws", 4, builders.TerminatesFor(testenv.Short))
	record, nodes := w.Record("lws"), w.Types()
	before := o.scaleTo(10, m)

	gone := func(pods []corev1.Pod) {
		w.WaitGone(pods)
		require.Equal(t, before, o.waitUnits(10, m))
	}
	spot, _ := m.SlotOf(capacity.Spot, 2)
	onDemand, _ := m.SlotOf(capacity.OnDemand, 1)
	var leaders []corev1.Pod
	for _, p := range having(w.Live("lws"), workerIndex, "0") {
		if slot := slotOf(t, &p); slot == spot || slot == onDemand {
			leaders = append(leaders, p)
			w.Delete(&p)
		}
	}
	require.Len(t, leaders, 2)
	gone(leaders)

	worker := having(w.Live("lws"), workerIndex, "3")[:1] // its group is created again
	group := byLabel(w.Live("lws"), groupKey)[worker[0].Labels[groupKey]]
	w.Delete(&worker[0])
	gone(group)

	for _, node := range []string{"spot-0", "on-demand-0"}[:testenv.Length(1, 2)] {
		gone(w.Drain(node))
		w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	}
	requireUnitsWhole(w, record, nodes, groupKey)
}

// A group is no gang: what fits of it runs, and the others wait for the same type, because its pods may not be on two.
func TestAGroupWithoutAGangWaitsInPart(t *testing.T) {
	room := func(pods int) func(*cluster.NodeSpec) { return func(n *cluster.NodeSpec) { n.Pods = pods } }
	w := testenv.New(t, append(cluster.Nodes("spot", 1, room(6)), cluster.Nodes("on-demand", 1, room(100))...)...)
	w.Create(builders.CapacityMix("lws", 50, 0)) // on-demand may be borrowed, but not by a part of a group
	o := newLeaderWorkers(w, "lws", 4)
	record, nodes := w.Record("lws"), w.Types()
	o.scale(4)
	w.Eventually("two groups run, and of two others all pods exist", func() (bool, string) {
		live := w.Live("lws")
		return len(live) == 16 && w.SplitOf(live).Pending <= 2, w.SplitOf(live).String()
	})
	w.Always(testenv.Short, "no group is on two types", func() (bool, string) {
		for unit, pods := range byLabel(testenv.Where(w.Live("lws"), testenv.Bound), groupKey) {
			if s := w.SplitOf(pods); s.Spot > 0 && s.OnDemand > 0 {
				return false, unit + ": " + s.String()
			}
		}
		return true, ""
	})
	more := cluster.NodeSpec{Name: "spot-more", CapacityType: "spot"}
	w.AddNodes(more)
	nodes[more.Name] = capacity.Spot
	w.WaitReady("lws", 16)
	requireUnitsWhole(w, record, nodes, groupKey)
}

// With units of one pod, the groups do not matter: 28 of 40 pods are on spot.
func TestPodsOfALeaderWorkerSetMayBeUnitsOfOne(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("lws", 70, 2, inUnits(v1alpha1.PodUnit{Type: v1alpha1.PodUnitPod})))
	o := newLeaderWorkers(w, "lws", 4)
	o.scale(10)
	w.RequireExact("lws", split.New(70, 2), 40)
	require.Equal(t, testenv.Split{Spot: 28, OnDemand: 12}, w.Split("lws"))
}
