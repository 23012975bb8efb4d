// SPDX-License-Identifier: Apache-2.0

// Package moves_test looks at which replicas a real controller moves, how many
// and in which order, and at what it writes in addition.
package moves_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestAChangedMixMovesTheFewestReplicasAndScalingMovesNone",
		"TestTheNextReplicaMovesOnceTheLastOneIsAvailable",
		"TestAWorkloadThatMissesReplicasLosesNoOther",
		"TestNothingIsEvictedThatAQuotaWouldNotLetComeBack",
	}}))
}

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand
)

// hasty gives a move so many seconds, and a workload a second of rest after one that failed.
func hasty(timeout int32) func(*controller.Configuration) {
	return func(c *controller.Configuration) {
		c.Mix.Rebalance.MoveTimeoutSeconds, c.Mix.Rebalance.BackoffSeconds = timeout, 1
	}
}

// astray makes a world with a workload of ten that is on on-demand as a whole, and capacity on spot for what belongs there.
func astray(t *testing.T) *testenv.World {
	t.Helper()
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.WaitReady("web", 10)
	w.AddNodes(cluster.Nodes(spot, 4)...)
	return w
}

func TestAChangedMixMovesTheFewestReplicasAndScalingMovesNone(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	scaled := builders.Deployment("scaled", 5)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 20, builders.ReadyAfter(400*time.Millisecond)))
	w.Create(builders.CapacityMix("scaled", 70, 2), scaled)
	w.WaitExact("web", split.New(70, 2), 20, testenv.SettleTimeout)
	w.WaitExact("scaled", split.New(70, 2), 5, testenv.SettleTimeout)
	recording := w.Record("web")
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("web")

	w.ChangeMix("web", builders.SpotPercent(30))
	for _, n := range []int32{20, 8, 31, 3, 5} { // while the other one is being moved
		w.Scale(scaled, n)
		w.WaitRepaired("scaled", split.New(70, 2), int(n), testenv.SettleTimeout)
	}
	w.WaitRepaired("web", split.New(30, 2), 20, testenv.SettleTimeout)
	assert.Len(t, w.EvictionsOf("web"), 8, "14 on spot become 6")

	onDemand, all := recording.FewestReady(capacity.OnDemand, 20)
	assert.Equal(t, 19, all, "fewest Ready replicas at any instant: one at a time")
	assert.GreaterOrEqual(t, onDemand, 6, "Ready replicas on on-demand at any instant")

	recording = w.Record("web")
	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) {
		builders.SpotPercent(70)(m)
		builders.MaxConcurrent(3)(m)
	})
	w.WaitRepaired("web", split.New(70, 2), 20, testenv.SettleTimeout)
	assert.Len(t, w.EvictionsOf("web"), 16, "6 on spot become 14")
	assert.Empty(t, w.EvictionsOf("scaled"), "scaling moves nothing")
	onDemand, all = recording.FewestReady(capacity.OnDemand, 20)
	assert.GreaterOrEqual(t, all, 17, "fewest Ready replicas at any instant: three at a time")
	assert.GreaterOrEqual(t, onDemand, 6, "Ready replicas on on-demand at any instant")
}

func TestStatefulSetReplicasReturnToTheTypesOfTheirOrdinals(t *testing.T) {
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	m := split.New(50, 1)
	w.Create(builders.CapacityMix("db", 50, 1), builders.StatefulSet("db", 6, appsv1.ParallelPodManagement, builders.TerminatesFor(time.Second)))
	w.WaitReady("db", 6)
	before := testenv.Read(w, "db", &appsv1.StatefulSet{})
	w.AddNodes(cluster.Nodes(spot, 4)...)
	recording := w.Record("db")
	w.Controller(testenv.Impatient)
	w.WaitRepaired("db", m, 6, testenv.SettleTimeout)

	types := w.Types()
	for slot, p := range w.Slots(w.Live("db")) {
		assert.Equal(t, fmt.Sprintf("db-%d", slot), p.Name, "a slot is an ordinal")
		assert.Equal(t, m.TypeOf(slot), types[p.Spec.NodeName], "pod %s", p.Name)
	}
	after := testenv.Read(w, "db", &appsv1.StatefulSet{})
	assert.Equal(t, before.Generation, after.Generation, "the StatefulSet is not edited")
	assert.Equal(t, before.Status.UpdateRevision, after.Status.UpdateRevision)
	assert.Equal(t, before.Spec, after.Spec)
	assert.Len(t, w.Evictions(), m.Spot(6), "one eviction per replica that had to move")
	_, all := recording.FewestReady(capacity.OnDemand, 6)
	assert.Equal(t, 5, all, "Ready replicas at any instant: one at a time")
}

// The pods of a StatefulSet come back under their own names, after the evicted
// one is gone: a new leader must not take the gap for a workload at rest.
func TestNewLeaderWaitsForTheMoveOfAStatefulSetReplica(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	w.Create(builders.CapacityMix("db", 50, 1), builders.StatefulSet("db", 6, appsv1.ParallelPodManagement, builders.TerminatesFor(12*time.Second)))
	w.WaitReady("db", 6)
	w.AddNodes(cluster.Nodes("spot", 4)...)
	recording := w.Record("db")
	c := w.Controller(testenv.Impatient)
	w.WaitEvictions(1)
	testenv.End(c, true)
	w.Controller(testenv.Impatient)
	w.Always(testenv.Holds, "no other replica is evicted while the first is on its way", func() (bool, string) {
		live := len(w.Live("db")) // 5 until the first is back
		return live >= 5, fmt.Sprint(live)
	})
	w.WaitRepaired("db", split.New(50, 1), 6, 2*testenv.SettleTimeout)
	assert.Len(t, w.Evictions(), 3)
	_, ready := recording.FewestReady(capacity.OnDemand, 6)
	assert.GreaterOrEqual(t, ready, 5, "Ready replicas at any instant")
}

// A policy of the cluster forbids the evictions of one workload, in a way that
// the controller cannot foresee.
func TestARefusedEvictionBacksOffForAllReplicas(t *testing.T) {
	w := astray(t)
	before := w.UIDs()
	allow := forbidEvictions(w, "web-")
	w.Controller(testenv.Impatient)
	w.WaitBlocked("web", "EvictionRefused", "the eviction of pod web-", "not now")
	began := w.Evictions()[0].At
	testenv.Stays(w, 2*testenv.Holds, "the eviction is not tried again", 1, w.Evicted)
	assert.Equal(t, before, w.UIDs())
	allow()
	w.WaitRepaired("web", split.New(70, 2), 10, 2*testenv.SettleTimeout)
	e := w.Evictions()
	assert.Len(t, e, 1+7)
	assert.GreaterOrEqual(t, e[1].At.Sub(began), 29*time.Second, "the rest after a refusal")
}

// forbidEvictions makes the API server refuse the evictions of pods by a prefix
// of their names, and waits until it does. It returns what ends that.
func forbidEvictions(w *testenv.World, prefix string) (allow func()) {
	w.T.Helper()
	return w.Forbid(prefix, "pods/eviction", func() error {
		pod := w.Live(strings.TrimSuffix(prefix, "-"))[0]
		return w.Kube.PolicyV1().Evictions(w.Namespace).Evict(w.Ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: pod.Name}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		})
	})
}

// A namespace whose quota was lowered below what runs makes no replacements.
func TestNothingIsEvictedThatAQuotaWouldNotLetComeBack(t *testing.T) {
	w := astray(t)
	w.Quota("pods", 9)
	w.Controller(testenv.Impatient)
	w.WaitBlocked("web", "QuotaExceeded", `ResourceQuota "quota" allows 9 of pods, and 10 is used`)
	testenv.Stays(w, testenv.Holds, "no replica is evicted", 0, w.Evicted)
	w.Quota("pods", 100)
	w.WaitRepaired("web", split.New(70, 2), 10, 2*testenv.SettleTimeout)
	assert.Len(t, w.Evictions(), 7)
}

// A policy forbids the replacement, in a way that the controller cannot foresee: each further eviction would cost a replica
// for good.
func TestAWorkloadThatMissesReplicasLosesNoOther(t *testing.T) {
	w := astray(t)
	allow := w.Forbid("web-", "pods", func() error { return w.DryRun(builders.Pod("other", "web-try")) })
	c := w.Controller(testenv.Impatient, hasty(3))
	w.Reaches("a move has timed out", 1, func() int {
		return w.Metric(c, "berth_mix_moves_total", map[string]string{"outcome": "timed-out"})
	})
	w.WaitBlocked("web", "NotReady", "1 of 10 replicas")
	testenv.Stays(w, testenv.Holds, "no other replica is lost", 1, w.Evicted)
	allow()
	w.WaitRepaired("web", split.New(70, 2), 10, 2*testenv.SettleTimeout)
	assert.Len(t, w.Evictions(), 7)
}

// relabel gives a node another capacity type, as when a pool is converted in place.
func relabel(w *testenv.World, node, capacityType string) {
	w.ChangeNode(node, func(n *corev1.Node) { n.Labels["karpenter.sh/capacity-type"] = capacityType })
}

func TestReplicasOfARelabelledNodeMoveOnceIfItStaysSo(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	pods := w.WaitExact("web", split.New(70, 2), 10, testenv.SettleTimeout)
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.StabilizationSeconds = 8 })
	w.WaitSatisfied("web")
	affected := testenv.NodesOf(pods)["spot-0"]
	require.Positive(t, affected)
	counted := func(s *v1alpha1.CapacityMixStatus) bool {
		return s.Actual.Spot == int32(7-affected) && s.Actual.OnDemand == int32(3+affected) && testenv.BlockedBy(s, "Stabilizing")
	}

	relabel(w, "spot-0", onDemand)
	w.WaitStatus("web", "the replicas on the converted node count as on-demand", counted)
	relabel(w, "spot-0", spot)
	w.WaitSatisfied("web")
	testenv.Stays(w, testenv.Holds, "nothing is moved for a change that did not last", 0, w.Evicted)

	relabel(w, "spot-0", onDemand)
	w.WaitStatus("web", "the replicas on the converted node count as on-demand", counted)
	w.WaitRepaired("web", split.New(70, 2), 10, testenv.SettleTimeout)
	moved := map[string]bool{}
	for _, e := range w.Evictions() {
		moved[e.Name] = true
	}
	assert.Len(t, moved, affected, "replicas moved: %v", moved)
	assert.Len(t, w.Evictions(), affected, "each once")
}
