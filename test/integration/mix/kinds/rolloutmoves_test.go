// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The ReplicaSets of a Rollout select their pods by a label of Argo's own.
func TestAMoveOfAnArgoRolloutCostsNoReplica(t *testing.T) {
	const replicas = 6
	w := testenv.New(t, cluster.Nodes(v1alpha1.CapacityTypeOnDemand, 4)...)
	m := split.New(70, 2)
	w.Create(builders.CapacityMix("web", 70, 2, builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurge)))
	rollouts(w, "web", replicas, 0, builders.ReadyAfter(400*time.Millisecond))
	w.WaitReady("web", replicas)
	recording := w.Record("web")
	w.AddNodes(cluster.Nodes(v1alpha1.CapacityTypeSpot, 4)...)
	w.Controller(testenv.Impatient)
	w.WaitRepaired("web", m, replicas, testenv.SettleTimeout)
	assert.Len(t, w.EvictionsOf("web"), m.Spot(replicas), "one eviction for each replica that had to move")
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
}
