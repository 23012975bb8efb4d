// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// twoPhase makes a policy by which the pods of an app that have one value of a label are bound together, so many of them.
func twoPhase(app, key string, size int32) *v1alpha1.SchedulingPolicy {
	return builders.SchedulingPolicy("together", func(s *v1alpha1.SchedulingPolicySpec) {
		s.PodSelector.MatchLabels = builders.Labels(app)
		s.Bind = &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: &size, GroupLabelKey: key, ReservationSeconds: new(int32(3))}
	})
}

// startsWhole has the four pods of a unit, which belongs on spot, created where spot has room for two of them, and then for all. On-demand
// has room for all from the beginning, and the mix does not borrow.
func startsWhole(t *testing.T, key string, create func(*testenv.World), changes ...func(*v1alpha1.CapacityMix)) {
	t.Helper()
	room := func(pods int) func(*cluster.NodeSpec) { return func(n *cluster.NodeSpec) { n.Pods = pods } }
	w := testenv.New(t, append(cluster.Nodes("spot", 1, room(2)), cluster.Nodes("on-demand", 1, room(100))...)...)
	changes = append(changes, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0))
	w.Create(builders.CapacityMix("team", 100, 0, changes...), twoPhase("team", key, 4))
	record, nodes := w.Record("team"), w.Types()
	create(w)
	bound := func() (bool, string) {
		n := len(testenv.Where(w.Live("team"), testenv.Bound))
		return n == 0, fmt.Sprint(n)
	}
	w.Reaches("pods that wait with a node", 2, func() int {
		return len(testenv.Where(w.Live("team"), func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" }))
	})
	w.Always(2*testenv.Short, "there is room for a half of the unit: no pod of it is bound", bound)

	more := cluster.NodeSpec{Name: "spot-more", CapacityType: "spot"}
	w.AddNodes(more)
	nodes[more.Name] = capacity.Spot
	pods := w.WaitReady("team", 4)
	require.Equal(t, testenv.Split{Spot: 4}, w.SplitOf(pods))
	requireUnits(w, byLabel(pods, key), 4, split.New(100, 0))
	requireUnitsWhole(w, record, nodes, key)
}

// A unit alone is no gang. With a policy whose bind mode is TwoPhase it is.
func TestAGroupOfALeaderWorkerSetStartsWholeByAPolicy(t *testing.T) {
	startsWhole(t, groupKey, func(w *testenv.World) { newLeaderWorkers(w, "team", 4).scale(1) })
}

func TestAUnitByALabelStartsWholeByAPolicy(t *testing.T) {
	unit := v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
	startsWhole(t, "unit", func(w *testenv.World) { w.Create(builders.Deployment("team", 4, labeled("unit", "a"))) }, inUnits(unit))
}
