// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Replicas that run make no autoscaler launch a node. A placeholder does, and only then a replica is evicted.
func TestKarpenterLaunchesNodesForPlaceholders(t *testing.T) {
	w := start(t, both)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Controller(testenv.Impatient)
	w.Create(
		builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand, builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Provisioning = v1alpha1.ProvisioningPlaceholder })),
		builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated),
	)
	w.waitMix(20)
	seen := launches{}
	seen.see(w)
	ready := w.Record("web")

	const fewer = 30
	w.ChangeMix("web", builders.SpotPercent(fewer))
	w.WaitExact("web", split.New(fewer, web.MinOnDemand), 20, patience)
	_, least := ready.FewestReady(capacity.Spot, 20)
	assert.GreaterOrEqual(t, least, 20-1, "Ready replicas at any time")
	testenv.Becomes(w.UpTo(patience), "placeholders", 0, func() int { return len(w.Pods(client.HasLabels{v1alpha1.PlaceholderLabel})) })
	before := len(seen)
	seen.see(w)
	t.Logf("%d nodes before; in all %s; %d evictions", before, seen, w.evictions())
	w.requireKarpentersNodes()
}

// Without the gate replicas borrow spot nodes, which are what Karpenter launches. With placeholders they come to their type
// all the same, if later.
func TestReplicasMoveToANodeThatKarpenterLaunchesForAPlaceholder(t *testing.T) {
	w := start(t, both)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(
		builders.CapacityMix("web", 50, 1,
			builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableSpot),
			builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Provisioning = v1alpha1.ProvisioningPlaceholder })),
		builders.Deployment("web", 4, builders.CPU(cpu)),
	)
	w.UpTo(patience).WaitSplit("web", "all replicas run on spot", testenv.Split{Spot: 4})
	w.Controller(testenv.Impatient)
	w.WaitExact("web", split.New(50, 1), 4, patience)
	w.requireKarpentersNodes()
}

// Spot capacity ends after two nodes, which take six replicas. The other eight of the spot slots end on on-demand. When
// there is spot again they return: placeholders make Karpenter launch the nodes.
func TestWithoutSpotFromKarpenterReplicasFallBackAndReturn(t *testing.T) {
	spot := pool{name: "spot", types: []string{"spot"}, cpus: "8", consolidateAfter: "Never"}
	w := start(t, spot, pool{name: "on-demand", types: []string{"on-demand"}, consolidateAfter: "Never"})
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Controller(testenv.Impatient)
	w.Create(
		builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand,
			builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Provisioning = v1alpha1.ProvisioningPlaceholder })),
		builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated),
	)
	began := time.Now()
	w.Within(patience, "all replicas are Ready, 6 on spot and 14 on on-demand", func() (bool, string) {
		pods := w.Live("web")
		s := w.SplitOf(pods)
		ready := len(testenv.Where(pods, testenv.Ready))
		return ready == 20 && s.Spot == 6 && s.OnDemand == 14, fmt.Sprintf("%d Ready, %s", ready, s)
	})
	t.Logf("8 replicas fell back after %s, %s after the first report of Karpenter", time.Since(began).Round(time.Second),
		time.Since(w.firstReport()).Round(time.Second))
	require.Less(t, time.Since(began), defaultWait, "Karpenter reports that its NodePool has reached its limit")
	require.Zero(t, w.evictions())
	w.requireKarpentersNodes()

	spot.cpus = "1000"
	require.NoError(t, w.Cluster.Apply(w.Ctx, spot.manifest()))
	began = time.Now()
	w.waitMix(20)
	t.Logf("they returned within %s, by %d evictions", time.Since(began).Round(time.Second), w.evictions())
	w.requireKarpentersNodes()
}
