// SPDX-License-Identifier: Apache-2.0

package placeholder_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// An autoscaler launches nodes for the placeholders in the time that is left, and the replacements start as soon as the replicas are lost.
func TestTheReplacementsOfReclaimedReplicasHaveTheirPlaces(t *testing.T) {
	small := func(n *cluster.NodeSpec) { n.CPU = "450m" } // four pods
	nodes := cluster.Nodes(spot, 2, small)
	w := testenv.New(t, append(nodes, cluster.Nodes(onDemand, 2)...)...)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(builders.CapacityMix("web", 50, 0, placeholders), builders.Deployment("web", 12, builders.Gated))
	w.WaitExact("web", split.New(50, 0), 12, testenv.SettleTimeout)
	c := w.Controller(testenv.Impatient)
	w.WaitSatisfied("web")
	there := map[string]bool{}
	for _, p := range w.Live("web") {
		if p.Spec.NodeName == nodes[0].Name {
			there[p.Name] = true
		}
	}
	lost := len(there)
	require.Positive(t, lost)

	w.ChangeNode(nodes[0].Name, func(o *corev1.Node) {
		o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: "cloud.google.com/impending-node-termination", Effect: corev1.TaintEffectNoSchedule})
	})
	waitHolders(w, lost)
	for i := range lost { // what is free on the other spot node does not suffice
		w.AddNodes(cluster.NodeSpec{Name: fmt.Sprintf("launched-%d", i), CapacityType: spot, CPU: "150m"})
	}
	w.Eventually("the placeholders have nodes", func() (bool, string) {
		return len(testenv.Where(holders(w), func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })) == lost, names(holders(w))
	})
	assert.Empty(t, w.Evictions())

	w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodes[0].Name}})
	w.WaitRepaired("web", split.New(50, 0), 12, testenv.SettleTimeout)
	waitHolders(w, 0)
	for _, e := range w.Evictions() { // of pods whose node is gone
		assert.True(t, there[e.Name], "no other replica moves: %s", e.Name)
	}
	assert.Zero(t, w.Metric(c, "berth_mix_moves_total", map[string]string{"outcome": "not-provisioned"}))
}
