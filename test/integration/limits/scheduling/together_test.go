// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func typed(capacityType string) func(*cluster.NodeSpec) {
	return func(n *cluster.NodeSpec) { n.CapacityType, n.InstanceType = capacityType, "m5.large" }
}

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand
)

// A mix and a limit on the same pods: the mix is exact at every size, and no pod
// is ever on a node that the limit does not match.
func TestAMixAndALimitBothHoldAtEverySize(t *testing.T) {
	var nodes []cluster.NodeSpec
	for i, ofPool := range []string{"batch", "web", "batch", "web"} {
		nodes = append(nodes, node(fmt.Sprintf("spot-%d", i), ofPool, "zone-a", typed(spot)), node(fmt.Sprintf("on-demand-%d", i), ofPool, "zone-b", typed(onDemand)))
	}
	w := testenv.New(t, nodes...)
	start(w, nil)
	matching := map[string]bool{"spot-0": true, "spot-2": true, "on-demand-0": true, "on-demand-2": true}
	d := builders.Deployment("web", 0, builders.OfSize("batch"))
	w.Create(builders.ResourceLimit("batch", builders.SizeOnNodesWith(pool, "batch"), builders.SizeCPU("100m", "1")), builders.CapacityMix("web", 70, 2), d)
	for _, n := range []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 13, 6, 5, 4, 3, 2, 1, 10} {
		w.Scale(d, n)
		for _, p := range w.RequireExact("web", split.New(70, 2), int(n)) {
			require.True(t, matching[p.Spec.NodeName], "%s at %d replicas", p.Spec.NodeName, n)
		}
	}
}

// Where neither has free capacity, the event has for each node what keeps the pod off it.
func TestAnEventHasTheReasonsOfAMixAndALimit(t *testing.T) {
	w := testenv.New(t,
		node("spot-0", "batch", "zone-a", typed(spot)), node("spot-1", "batch", "zone-a", typed(spot)),
		node("on-demand-full", "batch", "zone-a", typed(onDemand), func(n *cluster.NodeSpec) { n.CPU = "1" }),
		node("on-demand-web", "web", "zone-a", typed(onDemand)), node("spot-web", "web", "zone-a", typed(spot)),
	)
	start(w, nil)
	w.Fill("on-demand-full", 1)
	limit := builders.ResourceLimit("batch", builders.SizeOnNodesWith(pool, "batch"))
	w.Create(limit, builders.CapacityMix("web", 0, 0), builders.Deployment("web", 1, builders.OfSize("batch")))
	waitReason(w, "web", 1, fmt.Sprintf("0/5 nodes are available: 1 Insufficient cpu, 2 node(s) are spot, slot 0 needs on-demand, "+
		"2 node(s) didn't match the node rules of ResourceLimit %q.", w.Namespace+"/batch"))
	staysPending(w, "web", 1)

	// The limit is changed, and the pod finds the place that its mix allows.
	change(w, limit, builders.SizeOnNodesWith(pool, "web"))
	require.Equal(t, map[string]int{"on-demand-web": 1}, testenv.NodesOf(requireWoken(w, "web", 1)))
}

// A pod above its size holds no slot: those that are within theirs get the lowest.
func TestAPodAboveItsSizeHoldsNoSlot(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	start(w, nil)
	w.Create(builders.ResourceLimit("tiny", builders.SizeCPU("10m", "10m")), builders.CapacityMix("web", 50, 1))
	above := builders.Pod("web", "above", builders.OfSize("tiny"))
	w.Create(above)
	w.WaitUnschedulable("web", 1)
	within := func(t *corev1.PodTemplateSpec) { t.Labels["within"] = "yes" }
	for i := range 4 {
		w.Create(builders.Pod("web", fmt.Sprintf("within-%d", i), within))
	}
	var pods []corev1.Pod
	testenv.Becomes(w, "the others are placed", 4, func() int {
		pods = testenv.Where(w.Live("web"), func(p *corev1.Pod) bool { return p.Labels["within"] != "" && testenv.Bound(p) })
		return len(pods)
	})
	w.RequireExactPods(pods, split.New(50, 1))
}
