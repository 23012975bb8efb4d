// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// spotWait is how long the replicas wait for spot here: longer than Karpenter takes to launch a node, by far less than
// the default.
const spotWait = 20

// Spot capacity ends after two nodes, which take six replicas. The other eight of the spot slots end on on-demand. When
// there is spot again they return: placeholders make Karpenter launch the nodes.
func TestWithoutSpotFromKarpenterReplicasFallBackAndReturn(t *testing.T) {
	spot := pool{name: "spot", types: []string{"spot"}, cpus: "8", consolidateAfter: "Never"}
	w := start(t, spot, pool{name: "on-demand", types: []string{"on-demand"}, consolidateAfter: "Never"})
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Controller(testenv.Impatient)
	w.Create(
		builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand,
			builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, spotWait),
			builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Provisioning = v1alpha1.ProvisioningPlaceholder })),
		builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated),
	)
	began := time.Now()
	w.Within(patience, "all replicas are Ready, 6 on spot and 14 on on-demand", func() (bool, string) {
		pods := w.Live("web")
		s := w.SplitOf(pods)
		ready := len(slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !testenv.Ready(&p) }))
		return ready == 20 && s.Spot == 6 && s.OnDemand == 14, fmt.Sprintf("%d Ready, %s", ready, s)
	})
	t.Logf("8 replicas fell back after %s", time.Since(began).Round(time.Second))
	require.Zero(t, w.evictions())
	w.requireKarpentersNodes()

	spot.cpus = "1000"
	require.NoError(t, w.Cluster.Apply(w.Ctx, spot.manifest()))
	began = time.Now()
	w.waitMix(20)
	t.Logf("they returned within %s, by %d evictions", time.Since(began).Round(time.Second), w.evictions())
	w.requireKarpentersNodes()
}
