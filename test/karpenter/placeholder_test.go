// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
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
	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = fewer })
	w.WaitExact("web", split.New(fewer, web.MinOnDemand), 20, patience)
	_, least := ready.FewestReady(capacity.Spot, 20)
	assert.GreaterOrEqual(t, least, 20-1, "Ready replicas at any time")
	w.Within(patience, "no placeholder is left", func() (bool, string) {
		left := w.Pods(client.HasLabels{v1alpha1.PlaceholderLabel})
		return len(left) == 0, fmt.Sprint(len(left))
	})
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
	w.Within(patience, "all replicas run on spot", func() (bool, string) {
		s := w.Split("web")
		return s.Spot == 4, s.String()
	})
	w.Controller(testenv.Impatient)
	w.WaitExact("web", split.New(50, 1), 4, patience)
	w.requireKarpentersNodes()
}
