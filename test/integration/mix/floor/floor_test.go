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
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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

func surge(m *v1alpha1.CapacityMix) {
	builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Strategy = v1alpha1.RebalanceStrategySurge })(m)
}

// floors are the numbers of the budgets of Berth.
func floors(w *testenv.World) (numbers []int) {
	w.T.Helper()
	all := &policyv1.PodDisruptionBudgetList{}
	require.NoError(w.T, w.Client.List(w.Ctx, all, client.InNamespace(w.Namespace), client.HasLabels{v1alpha1.FloorLabel}))
	for i := range all.Items {
		numbers = append(numbers, all.Items[i].Spec.MinAvailable.IntValue())
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

// evictor evicts all replicas of an app on on-demand nodes again and again, as drains of all these nodes do, until it is ended.
func evictor(w *testenv.World, app string) (end func() (evicted int)) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	types := w.Types()
	var group sync.WaitGroup
	n := 0
	group.Go(func() {
		for ctx.Err() == nil {
			list, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
			if err != nil {
				continue
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
	recording := w.Record("web")

	end := evictor(w, "web")
	during(w, 8*time.Second)
	builders.WithTemplate(web, "2")
	w.Update(web)
	during(w, 12*time.Second)
	assert.Positive(t, end(), "what is above the floor goes")
	ready, _ := recording.FewestReady(capacity.OnDemand, replicas)
	assert.GreaterOrEqual(t, ready, floor, "fewest Ready replicas on on-demand at any event")
}
