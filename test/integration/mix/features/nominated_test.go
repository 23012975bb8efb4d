// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// nominate names a node in the status of a pod, as an autoscaler does for the node that it launches (KEP-5278).
func nominate(w *testenv.World, pod *corev1.Pod, node string) {
	w.T.Helper()
	before := pod.DeepCopy()
	pod.Status.NominatedNodeName = node
	require.NoError(w.T, w.Client.Status().Patch(w.Ctx, pod, client.StrategicMergeFrom(before)), "nominate pod %s to node %s", pod.Name, node)
}

func TestReplicasThatOthersNominateElsewhereKeepTheirSlots(t *testing.T) {
	w := newWorld(t, nil, node("on-demand-0", "on-demand", "16"))
	w.Create(builders.CapacityMix("web", 70, 1, spotOnly), builders.Deployment("web", 10))
	for _, p := range w.WaitUnschedulable("web", 7) {
		nominate(w, &p, "on-demand-0")
	}
	w.StaysSplit(testenv.Short, "web", "a nomination gives no slot", testenv.Split{OnDemand: 3, Pending: 7})
	w.AddNodes(cluster.Nodes("spot", 2)...)
	w.RequireExact("web", split.New(70, 1), 10)
}

// Without the nomination they would be spread over the nodes.
func TestReplicasThatOthersNominateToANodeOfTheirTypeRunThere(t *testing.T) {
	w := newWorld(t, nil, cluster.Nodes("spot", 3)...)
	w.Create(builders.CapacityMix("web", 100, 0, spotOnly), builders.Deployment("web", 3, func(t *corev1.PodTemplateSpec) {
		t.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/node"}}
	}))
	w.WaitSplit("web", "the replicas are gated", testenv.Split{Pending: 3})
	for _, p := range w.Live("web") {
		nominate(w, &p, "spot-1")
		testenv.Patch(w, &p, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	}
	for _, p := range w.RequireExact("web", split.New(100, 0), 3) {
		require.Equal(t, "spot-1", p.Spec.NodeName, p.Name)
	}
}
