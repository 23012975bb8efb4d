// SPDX-License-Identifier: Apache-2.0

package karpenter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// slow is how long a node takes from its launch until it registers.
const slow = 30 * time.Second

// registerAfter has nodes register so long after their launch.
func (w *autoscaled) registerAfter(delay time.Duration) {
	w.T.Helper()
	patch := fmt.Sprintf(`{"spec":{"nodeRegistrationDelay":%q}}`, delay)
	require.NoError(w.T, w.Client.Patch(w.Ctx, nodeClassObject(), client.RawPatch(types.MergePatchType, []byte(patch))))
}

// spotNodes are the names of the spot nodes with replicas, and those of the first n.
func (w *autoscaled) spotNodes(n int) (names []string, pods int) {
	w.T.Helper()
	on, nodeTypes := testenv.NodesOf(w.Live("web")), w.Types()
	for name, replicas := range on {
		if nodeTypes[name] == capacity.Spot && len(names) < n {
			names, pods = append(names, name), pods+replicas
		}
	}
	require.Len(w.T, names, n)
	return names, pods
}

// reclaim deletes the NodeClaims of nodes without notice, so that Karpenter drains and ends them.
func (w *autoscaled) reclaim(names []string) {
	w.T.Helper()
	of := map[string]bool{}
	for _, name := range names {
		of[testenv.ReadIn(w.World, "", name, &corev1.Node{}).Spec.ProviderID] = true
	}
	for _, claim := range w.list(nodeClaims) {
		status, _ := claim.Object["status"].(map[string]any)
		if id, _ := status["providerID"].(string); of[id] {
			require.NoError(w.T, w.Client.Delete(w.Ctx, &claim))
		}
	}
}

// A node that takes long is no node that does not come: nothing falls back, and no more nodes are launched than are needed.
func TestNodesThatRegisterSlowlyAreWaitedFor(t *testing.T) {
	w := start(t, both)
	w.registerAfter(slow)
	w.Controller(testenv.Impatient)
	began := time.Now()
	w.Create(builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand), builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated))
	w.waitMix(20)
	t.Logf("20 replicas in their mix %s after their creation, with %d nodes", time.Since(began).Round(time.Second), len(w.nodes()))
	assert.Len(t, w.nodes(), 5+2, "14 and 6 replicas, three to a node")
	assert.Empty(t, w.Evictions())
	w.requireKarpentersNodes()
}

// Two spot nodes get a notice of two minutes, and new nodes need 30 seconds. Placeholders request the nodes at once, and each replica is
// evicted when its replacement serves.
func TestANoticeIsEnoughToLaunchNodes(t *testing.T) {
	const replicas, notice = 20, 2 * time.Minute
	w := start(t, both)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(
		builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand, builders.Rebalance(func(r *v1alpha1.RebalanceSpec) {
			r.Strategy, r.Provisioning = v1alpha1.RebalanceStrategySurge, v1alpha1.ProvisioningPlaceholder
		})),
		builders.Deployment("web", replicas, builders.CPU(cpu), builders.Gated),
	)
	w.waitMix(replicas)
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("web")
	w.registerAfter(slow)
	leaving, lost := w.spotNodes(2)
	recording := w.Record("web")

	began := time.Now()
	for _, name := range leaving {
		w.ChangeNode(name, func(o *corev1.Node) {
			o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule})
		})
	}
	w.Within(notice, "no replica is left on the nodes", func() (bool, string) {
		on := testenv.NodesOf(w.Live("web"))
		return on[leaving[0]]+on[leaving[1]] == 0, fmt.Sprint(on)
	})
	t.Logf("%d replicas have left %s after the notice", lost, time.Since(began).Round(time.Second))
	w.reclaim(leaving)
	w.waitMix(replicas)
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
	assert.Len(t, w.EvictionsOf("web"), lost, "no other replica is evicted")
}

// Karpenter is killed when a workload grows, and is away while the gates of its pods are removed. Its KWOK provider forgets the nodes that it
// was about to create, so it is killed before it launches any.
func TestKarpenterIsAwayWhileAWorkloadGrows(t *testing.T) {
	w := start(t, both)
	w.Controller(testenv.Impatient)
	d := builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated)
	w.Create(builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand), d)
	w.waitMix(20)
	w.kill()
	w.Scale(d, 40)
	// The spot nodes have a free place.
	w.WaitSplit("web", "the other new replicas wait", testenv.Split{Spot: 15, OnDemand: 6, Pending: 19})
	began := time.Now()
	w.run()
	w.waitMix(40)
	t.Logf("40 replicas in their mix %s after Karpenter started again, with %d nodes", time.Since(began).Round(time.Second), len(w.nodes()))
	assert.Len(t, w.nodes(), 10+4, "28 and 12 replicas, three to a node")
	assert.Empty(t, w.Evictions())
}

// Spot nodes end while the workload doubles. The replicas of its floor stay Ready all the time.
func TestInterruptionsWhileAWorkloadGrows(t *testing.T) {
	w := start(t, both)
	w.Controller(testenv.Impatient)
	d := builders.Deployment("web", 20, builders.CPU(cpu), builders.Gated)
	w.Create(builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand), d)
	w.waitMix(20)
	leaving, lost := w.spotNodes(2)
	recording := w.Record("web")
	began := time.Now()
	w.Scale(d, 40)
	w.reclaim(leaving)
	w.waitMix(40)
	t.Logf("40 replicas in their mix %s after the loss of %d", time.Since(began).Round(time.Second), lost)
	onDemand, _ := recording.FewestReady(capacity.OnDemand, 20)
	assert.GreaterOrEqual(t, onDemand, web.OnDemand(20), "fewest Ready replicas on on-demand at any instant")
	assert.Empty(t, w.Evictions(), "Karpenter evicts, Berth does not")
	w.requireKarpentersNodes()
}

// Launches of spot nodes fail in one zone. The pods that require it go to on-demand; those of the same mix that require another zone stay
// in their mix, and none of them waits.
func TestAZoneWithoutSpotSendsNoPodOfAnotherToOnDemand(t *testing.T) {
	w := start(t, both)
	w.noCapacity("spot/test-zone-a")
	w.Controller(testenv.Impatient)
	of := func(app, zone string) *appsv1.Deployment {
		return builders.Deployment(app, 10, builders.CPU(cpu), builders.Gated, builders.OnNodesWith(corev1.LabelTopologyZone, zone),
			func(p *corev1.PodTemplateSpec) { p.Labels["mix"] = "web" })
	}
	began := time.Now()
	w.Create(
		builders.CapacityMix("web", web.SpotPercent, web.MinOnDemand, func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels = map[string]string{"mix": "web"} }),
		of("web", "test-zone-a"), of("healthy", "test-zone-b"),
	)
	w.WaitExact("healthy", web, 10, patience)
	t.Logf("the zone with spot has its mix after %s", time.Since(began).Round(time.Second))
	all, since := w.fallsBack(10, began)
	t.Logf("the zone without spot runs on on-demand after %s, %s after the first report", all.Round(time.Second), since.Round(time.Second))
	w.WaitExact("healthy", web, 10, patience)
	assert.Empty(t, w.Evictions())
	w.requireKarpentersNodes()
}
