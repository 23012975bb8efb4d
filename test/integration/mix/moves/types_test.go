// SPDX-License-Identifier: Apache-2.0

package moves_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// relabel gives a node another capacity type, as when a pool is converted in place.
func relabel(w *testenv.World, node, capacityType string) {
	testenv.Patch(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, func(n *corev1.Node) {
		n.Labels["karpenter.sh/capacity-type"] = capacityType
	})
}

func TestReplicasOfARelabelledNodeMoveOnceIfItStaysSo(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	pods := w.WaitExact("web", split.New(70, 2), 10, testenv.SettleTimeout)
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.StabilizationSeconds = 8 })
	w.WaitSatisfied("web")
	affected := 0
	for i := range pods {
		if pods[i].Spec.NodeName == "spot-0" {
			affected++
		}
	}
	require.Positive(t, affected)
	counted := func(s *v1alpha1.CapacityMixStatus) bool {
		return s.Actual.Spot == int32(7-affected) && s.Actual.OnDemand == int32(3+affected) && testenv.BlockedBy(s, "Stabilizing")
	}

	relabel(w, "spot-0", onDemand)
	w.WaitStatus("web", "the replicas on the converted node count as on-demand", counted)
	relabel(w, "spot-0", spot)
	w.WaitSatisfied("web")
	w.Always(holds, "nothing is moved for a change that did not last", func() (bool, string) { return len(w.Evictions()) == 0, "" })

	relabel(w, "spot-0", onDemand)
	w.WaitStatus("web", "the replicas on the converted node count as on-demand", counted)
	w.WaitRepaired("web", split.New(70, 2), 10, testenv.SettleTimeout)
	moved := map[string]int{}
	for _, e := range w.Evictions() {
		moved[e.Name]++
	}
	assert.Len(t, moved, affected, "replicas moved: %v", moved)
	for name, times := range moved {
		assert.Equal(t, 1, times, name)
	}
}
