// SPDX-License-Identifier: Apache-2.0

package placeholder_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestAReplicaIsEvictedOnlyOnceItsPlaceholderIsBound(t *testing.T) {
	w := strayed(t)
	before := w.Live("web")
	recording := w.Record("web")
	c := w.Controller(testenv.Impatient)

	first := waitHolders(w, 1)[0]
	w.Eventually("autoscalers see it", func() (bool, string) {
		says := testenv.Unschedulable(&holders(w)[0])
		return says != "", says
	})
	assert.Equal(t, onDemand, first.Spec.NodeSelector[cluster.CapacityTypeLabel])
	assert.Equal(t, int32(-10), *first.Spec.Priority)
	assert.NotContains(t, first.Annotations, v1alpha1.SlotAnnotation)
	waitProvisioning(w, "web")
	w.Always(holds, "one replica at a time, and none is evicted", func() (bool, string) {
		return len(holders(w)) == 1 && len(w.Evictions()) == 0, names(holders(w))
	})
	assertUntouched(w, before)
	assert.Equal(t, 1, w.Metric(c, "berth_mix_placeholder_pods", map[string]string{"mix": "web"}))

	launch(w, "launched-0")
	w.WaitEvictions(1)
	second := waitHolders(w, 1)
	for second[0].UID == first.UID { // the list may be as of before the first went
		second = waitHolders(w, 1)
	}
	testenv.Stays(w, holds, "the second replica waits for a node of its own", 1, w.Evicted)
	launch(w, "launched-1")
	w.WaitRepaired("web", half, 4, testenv.SettleTimeout)
	waitHolders(w, 0)

	created, evicted, deleted := asked(w, "create", "pods"), w.Evictions(), asked(w, "delete", "pods")
	require.Len(t, created, 2)
	require.Len(t, evicted, 2)
	require.Len(t, deleted, 2)
	bound := w.Audit(func(r testenv.Request) bool { return r.Resource == "pods/binding" && r.Name == first.Name })
	require.Len(t, bound, 1)
	assert.True(t, bound[0].At.Before(evicted[0].At), "the placeholder has its node before the replica is evicted")
	assert.True(t, deleted[0].At.Before(evicted[0].At), "and gives way to a replacement that would borrow before there is one")
	assert.Less(t, evicted[0].At.Sub(deleted[0].At), 4*time.Second, "at once, and not with the next resync after 5 s")
	assert.Equal(t, first.Name, deleted[0].Name)
	_, ready := recording.FewestReady(capacity.OnDemand, 4)
	assert.GreaterOrEqual(t, ready, 3, "Ready replicas at any instant")
	for _, result := range []string{"created", "used"} {
		assert.Equal(t, 2, w.Metric(c, "berth_mix_placeholders_total", map[string]string{"result": result}), result)
	}
	assert.Equal(t, 2, w.Metric(c, "berth_mix_moves_total", map[string]string{"outcome": "succeeded"}))
}

// The placeholder waits for a node in the zone in which its replica will be allowed, not in the one in which it would be allowed
// itself: it has not the labels that the constraint counts, and its replica still runs.
func TestAPlaceholderRunsOnlyWhereItsReplicaMay(t *testing.T) {
	zone := func(z string) func(*cluster.NodeSpec) { return func(n *cluster.NodeSpec) { n.Zone = z } }
	w := testenv.New(t, append(cluster.Nodes(spot, 1, zone("zone-a")), cluster.NodeSpec{Name: "spot-b", CapacityType: spot, Zone: "zone-b"})...)
	w.ApplyFiles("manifests/rbac/placeholders")
	spread := func(p *corev1.PodTemplateSpec) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels("web")},
		}}
	}
	w.Create(builders.CapacityMix("web", 50, 1, placeholders), builders.Deployment("web", 4, spread))
	w.WaitReady("web", 4)
	w.Controller(testenv.Impatient)
	first := waitHolders(w, 1)[0]
	replica := testenv.Where(w.Live("web"), func(p *corev1.Pod) bool { return string(p.UID) == first.Labels[v1alpha1.PlaceholderLabel] })[0]
	own, other := "zone-a", "zone-b"
	if replica.Spec.NodeName == "spot-b" {
		own, other = other, own
	}
	w.AddNodes(cluster.NodeSpec{Name: "elsewhere", CapacityType: onDemand, CPU: "150m", Zone: other})
	w.Always(holds, "it does not run where the replica may not", func() (bool, string) {
		all := holders(w)
		return len(all) == 1 && all[0].Spec.NodeName == "", names(all)
	})
	assert.Empty(t, w.Evictions())
	w.AddNodes(cluster.NodeSpec{Name: "here", CapacityType: onDemand, CPU: "150m", Zone: own})
	w.WaitEvictions(1)
	w.Eventually("the replacement runs", func() (bool, string) {
		return len(testenv.Where(w.Live("web"), func(p *corev1.Pod) bool { return p.Spec.NodeName == "here" && testenv.Ready(p) })) == 1, ""
	})
}

func TestWithoutANewNodeNoReplicaIsEvicted(t *testing.T) {
	w := strayed(t)
	before := w.Live("web")
	c := w.Controller(testenv.Impatient, func(c *controller.Configuration) {
		c.Mix.Rebalance.MoveTimeoutSeconds, c.Mix.Rebalance.BackoffSeconds, c.Mix.Rebalance.MaxBackoffSeconds = 4, 600, 1800
	})
	held := waitHolders(w, 1)[0]
	w.WaitBlocked("web", "BackingOff", "1 move in a row failed")
	waitHolders(w, 0)
	deleted := asked(w, "delete", "pods")
	require.Len(t, deleted, 1)
	// The controller counts from its decision, which a busy API server makes an object of some time later.
	assert.GreaterOrEqual(t, deleted[0].At.Sub(held.CreationTimestamp.Time), 3*time.Second)
	assert.Equal(t, 1, w.Metric(c, "berth_mix_moves_total", map[string]string{"outcome": "not-provisioned"}))
	w.Always(2*holds, "no other is created while the workload rests", func() (bool, string) { return len(holders(w)) == 0, "" })
	assertUntouched(w, before)
}

func TestPlaceholdersCountInTheBudgetsOfMixAndCluster(t *testing.T) {
	w := strayed(t, builders.MaxConcurrent(2))
	c := w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.ClusterMaxConcurrent = 1 })
	waitHolders(w, 1)
	w.Always(holds, "the cluster's budget is one", func() (bool, string) { return len(holders(w)) == 1, names(holders(w)) })
	testenv.End(c, false)
	w.Controller(testenv.Impatient)
	waitHolders(w, 2)
	assert.Len(t, asked(w, "create", "pods"), 2, "the one of the first controller was taken over")
	launch(w, "launched-0")
	launch(w, "launched-1")
	w.WaitRepaired("web", half, 4, testenv.SettleTimeout)
	waitHolders(w, 0)
	assert.Len(t, w.Evictions(), 2)
}

func TestAKilledControllersMoveIsCompletedByTheNext(t *testing.T) {
	w := strayed(t)
	c := w.Controller(testenv.Impatient)
	held := waitHolders(w, 1)[0]
	testenv.End(c, true)
	launch(w, "launched-0")
	testenv.Becomes(w, "the placeholder runs while no controller runs", corev1.PodRunning, func() corev1.PodPhase {
		return holders(w)[0].Status.Phase
	})
	c = w.Controller(testenv.Impatient)
	w.WaitEvictions(1)
	created := asked(w, "create", "pods")
	require.NotEmpty(t, created)
	w.WaitDeleted(&held) // the placeholder has given way
	w.WaitSplit("web", "the replacement runs on the node that was launched for it", testenv.Split{OnDemand: 1, Spot: 3})

	// The second replica has its placeholder; its mix stops to request one while no controller runs.
	second := waitHolders(w, 1)[0]
	testenv.End(c, true)
	w.ChangeMix("web", builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Provisioning = v1alpha1.ProvisioningWait }))
	w.Controller(testenv.Impatient)
	waitHolders(w, 0)
	w.WaitBlocked("web", "InsufficientCapacity")
	assert.Equal(t, second.Name, asked(w, "delete", "pods")[1].Name)
	assert.Len(t, w.Evictions(), 1)
}

func TestAPlaceholderIsDeletedWithItsReplica(t *testing.T) {
	w := strayed(t)
	c := w.Controller(testenv.Impatient)
	held := waitHolders(w, 1)[0]
	d := testenv.Read(w, "web", &appsv1.Deployment{})
	w.Scale(d, 2)        // slots 0 and 1 stay; the replica of slot 2 was to move
	w.WaitDeleted(&held) // the placeholder of the replica that is gone
	waitHolders(w, 1)    // for slot 0
	testenv.End(c, true)
	w.Scale(d, 0)
	waitHolders(w, 0) // no one but the garbage collector is there
	assert.Empty(t, w.Evictions())
}

// The type of a pod with the scheduling gate is in its spec; its placeholder and
// its replacement have the other one.
func TestTheReplacementOfAGatedPodTakesThePlaceholdersCapacity(t *testing.T) {
	w := testenv.New(t, cluster.Nodes(spot, 2)...)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(builders.CapacityMix("web", 100, 0, placeholders), builders.Deployment("web", 2, builders.Gated))
	w.WaitReady("web", 2)
	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) { m.Spec.MinOnDemand = 1 })
	w.Controller(testenv.Impatient)
	held := waitHolders(w, 1)[0]
	assert.Equal(t, onDemand, held.Spec.NodeSelector[cluster.CapacityTypeLabel])
	assert.Empty(t, held.Spec.SchedulingGates)
	launch(w, "launched-0")
	w.WaitRepaired("web", split.New(100, 1), 2, testenv.SettleTimeout)
	waitHolders(w, 0)
	evicted, deleted := w.Evictions(), w.Audit(func(r testenv.Request) bool { return r.Verb == "delete" && r.Name == held.Name && r.OK() })
	require.Len(t, evicted, 1)
	require.NotEmpty(t, deleted, "by the controller or with its owner, and by KWOK if that sees it terminate")
	assert.True(t, evicted[0].At.Before(deleted[0].At), "whoever waits for the assignment lets it be kept until the replica goes")
}

// The pods of a StatefulSet come back when the old ones are gone. The assignment is
// kept for that long.
func TestAStatefulSetPlaceholderStaysUntilTheOldPodIsGone(t *testing.T) {
	const terminates = 3 * time.Second
	w := testenv.New(t, cluster.Nodes(spot, 2)...)
	w.ApplyFiles("manifests/rbac/placeholders")
	w.Create(builders.CapacityMix("db", 100, 0, func(m *v1alpha1.CapacityMix) {
		placeholders(m)
		m.Spec.WhenOnDemandUnavailable = v1alpha1.WhenOnDemandUnavailableWait
	}))
	w.Create(builders.StatefulSet("db", 2, appsv1.ParallelPodManagement, builders.TerminatesFor(terminates)))
	w.WaitReady("db", 2)
	w.ChangeMix("db", func(m *v1alpha1.CapacityMix) { m.Spec.MinOnDemand = 1 })
	w.Controller(testenv.Impatient)
	waitHolders(w, 1)
	launch(w, "launched-0")
	w.WaitEvictions(1)
	w.WaitRepaired("db", split.New(100, 1), 2, testenv.SettleTimeout)
	waitHolders(w, 0)
	gone := w.Audit(func(r testenv.Request) bool {
		return r.Verb == "delete" && r.Resource == "pods" && r.OK() && r.Name != "db-0" && r.Name != "db-1"
	})
	require.NotEmpty(t, gone)
	assert.GreaterOrEqual(t, gone[0].At.Sub(w.Evictions()[0].At), terminates-500*time.Millisecond, "%s", gone[0])
}

func TestEverythingIsCheckedAgainOnceThePlaceholderRuns(t *testing.T) {
	w := strayed(t)
	before := w.Live("web")
	w.Controller(testenv.Impatient)
	waitHolders(w, 1)
	budget := builders.PodDisruptionBudget("web", builders.MinAvailable("4"))
	w.Create(budget)
	launch(w, "launched-0")
	w.WaitStatus("web", "the placeholder runs, and a budget keeps the replica", func(s *v1alpha1.CapacityMixStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionRebalancing)
		return c != nil && c.Reason == v1alpha1.ReasonProvisioning && strings.Contains(c.Message, `runs; DisruptionBudget: PodDisruptionBudget "web" allows 0 disruptions`)
	})
	testenv.Stays(w, holds, "nothing is evicted", 0, w.Evicted)
	assertUntouched(w, before)
	w.Delete(budget)
	w.WaitEvictions(1)
	w.WaitSplit("web", "one replica is on on-demand", testenv.Split{OnDemand: 1, Spot: 3})
}
