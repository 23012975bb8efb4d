// SPDX-License-Identifier: Apache-2.0

// Package floor_test evicts replicas through the Eviction API while spec.protectFloor holds the floor of their mix.
package floor_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{}))
}

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand
)

var surge = builders.RebalanceStrategy(v1alpha1.RebalanceStrategySurge)

// floors are the numbers of the budgets of Berth.
func floors(w *testenv.World) (numbers []int) {
	w.T.Helper()
	all := &policyv1.PodDisruptionBudgetList{}
	require.NoError(w.T, w.Client.List(w.Ctx, all, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.FloorLabel}))
	for i := range all.Items {
		n := -1 // another client replaced it
		if number := all.Items[i].Spec.MinAvailable; number != nil {
			n = number.IntValue()
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func waitFloors(w *testenv.World, want ...int) {
	w.T.Helper()
	w.Eventually(fmt.Sprint("the budgets of Berth require ", want), func() (bool, string) {
		have := floors(w)
		return fmt.Sprint(have) == fmt.Sprint(want), fmt.Sprint(have)
	})
}

// labelled are the pods of an app with the label.
func labelled(w *testenv.World, app string) []corev1.Pod {
	return testenv.Where(w.Live(app), func(p *corev1.Pod) bool { return p.Labels[v1alpha1.FloorLabel] != "" })
}

// waitLabelled waits until exactly the replicas of an app on on-demand nodes have the label.
func waitLabelled(w *testenv.World, app string, n int) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d replicas on on-demand have the label", n), func() (bool, string) {
		types, right := w.Types(), 0
		for _, p := range w.Live(app) {
			if on := types[p.Spec.NodeName] == capacity.OnDemand; on == (p.Labels[v1alpha1.FloorLabel] != "") {
				right++
			}
		}
		return len(labelled(w, app)) == n && right == len(w.Live(app)), fmt.Sprint(len(labelled(w, app)), right)
	})
}

// again is how long an evictor waits at least between two rounds, of which kubectl drain has one in 5 s. Without a pause it takes a
// processor, and the API server that refuses the evictions takes the other: the suites beside it starve.
const again = 25 * time.Millisecond

// evictor evicts all replicas of an app on on-demand nodes again and again, as drains of all these nodes do, until it is ended.
func evictor(w *testenv.World, app string) (end func() (evicted int)) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	types := w.Types()
	var group sync.WaitGroup
	n := 0
	round := func() {
		list, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return
		}
		for i := range list.Items {
			p := &list.Items[i]
			if types[p.Spec.NodeName] != capacity.OnDemand || p.DeletionTimestamp != nil {
				continue
			}
			err := w.Kube.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
			if err == nil {
				n++
			}
		}
	}
	group.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			round()
			select {
			case <-ctx.Done():
			case <-time.After(max(again, time.Since(began))):
			}
		}
	})
	end = func() int {
		cancel()
		group.Wait()
		return n
	}
	w.T.Cleanup(func() { end() })
	return end
}

// during waits for a time in which others act.
func during(w *testenv.World, long time.Duration) {
	w.T.Helper()
	w.Always(long, "time passes", func() (bool, string) { return true, "" })
}

func TestEvictionsLeaveTheFloor(t *testing.T) {
	const replicas, floor = 10, 3
	w := testenv.New(t, append(cluster.Nodes(spot, 3), cluster.Nodes(onDemand, 3)...)...)
	w.Controller(testenv.Impatient)
	m := split.New(50, floor)
	web := builders.Deployment("web", replicas)
	w.Create(builders.CapacityMix("web", 50, floor, builders.ProtectFloor), web)
	w.WaitExact("web", m, replicas, testenv.SettleTimeout)
	waitFloors(w, floor)
	waitLabelled(w, "web", m.OnDemand(replicas))
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, true, v1alpha1.ReasonBudgetsKept)
	w.WaitReady("web", replicas)
	recording := w.Record("web")

	end := evictor(w, "web")
	during(w, 4*time.Second)
	restart(w, web)
	during(w, 12*time.Second)
	assert.Positive(t, end(), "what is above the floor goes")
	ready, _ := recording.FewestReady(capacity.OnDemand, replicas)
	assert.GreaterOrEqual(t, ready, floor, "fewest Ready replicas on on-demand at any event")
}

// restart begins a rollout.
func restart(w *testenv.World, d *appsv1.Deployment) {
	testenv.Patch(w, d, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"restarted": "now"} })
}

func TestTheBudgetFollowsTheMixAndBudgetsOfUsers(t *testing.T) {
	const floor = 2
	w := testenv.New(t, append(cluster.Nodes(spot, 2), cluster.Nodes(onDemand, 2)...)...)
	w.Controller(testenv.Impatient)
	web := builders.Deployment("web", 6)
	w.Create(builders.CapacityMix("web", 50, floor, builders.ProtectFloor), web)
	w.WaitExact("web", split.New(50, floor), 6, testenv.SettleTimeout)
	waitFloors(w, floor)
	waitLabelled(w, "web", 3)
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, true, v1alpha1.ReasonBudgetsKept)
	w.WaitSatisfied("web")

	since := time.Now()
	w.Always(testenv.Holds, "the controller writes nothing", func() (bool, string) {
		writes := w.Audit(func(r testenv.Request) bool {
			return r.User == cluster.BerthControllerUser && r.Write() && r.At.After(since.Add(time.Second)) && r.Resource != "events"
		})
		return len(writes) == 0, fmt.Sprint(writes)
	})

	edit := func(what string, change func(*policyv1.PodDisruptionBudget)) {
		t.Log(what)
		testenv.Patch(w, own(w), change) // the disruption controller writes the status at any time
		waitFloors(w, floor)
	}
	edit("another number", func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromInt32(0)) })
	edit("a field that excludes the number", func(b *policyv1.PodDisruptionBudget) {
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, new(intstr.FromInt32(5))
	})
	w.Delete(own(w))
	waitFloors(w, floor)
	w.Scale(web, 1)
	waitFloors(w, 1)
	w.Scale(web, 6)
	waitFloors(w, floor)

	theirs := builders.PodDisruptionBudget("theirs", builders.MinAvailable("1"))
	theirs.Spec.Selector.MatchLabels = builders.Labels("web")
	w.Create(theirs)
	waitFloors(w)
	cm := w.WaitCondition("web", v1alpha1.ConditionFloorProtected, false, v1alpha1.ReasonOverlappingBudget)
	assert.Contains(t, conditionOf(cm, v1alpha1.ConditionFloorProtected).Message, `"theirs"`)
	w.Delete(theirs)
	waitFloors(w, floor)
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, true, v1alpha1.ReasonBudgetsKept)

	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) { m.Spec.ProtectFloor = false })
	waitFloors(w)
	w.WaitStatus("web", "without the condition", func(s *v1alpha1.CapacityMixStatus) bool {
		return meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionFloorProtected) == nil
	})
	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) { m.Spec.ProtectFloor = true })
	waitFloors(w, floor)
	w.Delete(w.Mix("web"))
	waitFloors(w)
}

func conditionOf(cm *v1alpha1.CapacityMix, kind string) *metav1.Condition {
	return meta.FindStatusCondition(cm.Status.Conditions, kind)
}

// own is the only budget of Berth.
func own(w *testenv.World) *policyv1.PodDisruptionBudget {
	w.T.Helper()
	all := &policyv1.PodDisruptionBudgetList{}
	require.NoError(w.T, w.Client.List(w.Ctx, all, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.FloorLabel}))
	require.Len(w.T, all.Items, 1)
	return &all.Items[0]
}

// A ReplicaSet that selects its pods by the label would replace each pod that loses it.
func TestALabelOfATemplateStays(t *testing.T) {
	w := testenv.New(t, append(cluster.Nodes(spot, 2), cluster.Nodes(onDemand, 2)...)...)
	w.Controller(testenv.Impatient)
	web := builders.Deployment("web", 4, func(c *corev1.PodTemplateSpec) { c.Labels[v1alpha1.FloorLabel] = "0123456789abcdef" })
	web.Spec.Selector.MatchLabels[v1alpha1.FloorLabel] = "0123456789abcdef"
	w.Create(builders.CapacityMix("web", 50, 1, builders.ProtectFloor), web)
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, false, v1alpha1.ReasonLabelInUse)
	assert.Len(t, labelled(w, "web"), 4)
	for _, p := range labelled(w, "web") {
		assert.Equal(t, "0123456789abcdef", p.Labels[v1alpha1.FloorLabel])
	}
}

// A replica that was released counts beside its successor, so one of the two may go.
func TestADrainWithReleasesGoesThroughAtTheFloor(t *testing.T) {
	const replicas = 3
	nodes := cluster.Nodes(onDemand, 2)
	w := testenv.New(t, append(cluster.Nodes(spot, 2), nodes...)...)
	w.Create(
		builders.CapacityMix("web", 50, replicas, builders.ProtectFloor, surge), builders.Deployment("web", replicas),
		builders.CapacityMix("held", 50, replicas, builders.ProtectFloor), builders.Deployment("held", replicas),
	)
	w.Controller(testenv.Impatient)
	for _, app := range []string{"web", "held"} {
		w.WaitExact(app, split.New(50, replicas), replicas, testenv.SettleTimeout)
	}
	waitFloors(w, replicas, replicas)
	recording := w.Record("web")
	left := func(app string) int { return on(w, app, nodes[:1]) }
	held := left("held")
	require.Positive(t, left("web"))
	require.Positive(t, held)

	mark(w, nodes[0].Name)
	w.Eventually("the replicas that are released leave the node", func() (bool, string) {
		for _, app := range []string{"web", "held"} {
			for _, p := range w.Live(app) {
				if p.Spec.NodeName == nodes[0].Name {
					_ = w.Kube.PolicyV1().Evictions(p.Namespace).Evict(w.Ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
				}
			}
		}
		return left("web") == 0, fmt.Sprint(left("web"))
	})
	assert.Equal(t, held, left("held"), "a drain waits where replicas are evicted first")
	w.WaitReady("web", replicas)
	ready, _ := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, ready, "fewest Ready replicas on on-demand at any event")
}
