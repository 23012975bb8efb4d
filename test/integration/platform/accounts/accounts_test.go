// SPDX-License-Identifier: Apache-2.0

// Package accounts_test checks what the real controller writes about workloads:
// slots, deletion costs and events.
package accounts_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

var written = []string{v1alpha1.SlotAnnotation, v1alpha1.CapacityTypeAnnotation, v1alpha1.MixAnnotation, v1alpha1.PodDeletionCostAnnotation}

func costOf(p *corev1.Pod) string { return p.Annotations[v1alpha1.PodDeletionCostAnnotation] }

// quick has the controller repair many pods, and move none.
func quick(c *controller.Configuration) {
	testenv.Impatient(c)
	c.Mix.AnnotationRepairsPerMinute = 6000
	c.Mix.Rebalance.Mode = v1alpha1.RebalanceModeOff
}

// edit changes the annotations of a pod as a user does.
func edit(w *testenv.World, name string, change func(annotations map[string]string)) {
	w.T.Helper()
	testenv.Patch(w, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}, func(p *corev1.Pod) { change(p.Annotations) })
}

// waitMarked waits until the pods of an app hold slots that are their own, each with its cost.
func waitMarked(w *testenv.World, app string, n int) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Eventually(fmt.Sprintf("%d pods of %s hold slots and have costs", n, app), func() (bool, string) {
		pods = w.Live(app)
		held := map[int]bool{}
		for i := range pods {
			slot, ok := governing.ClaimedSlot(&pods[i])
			if !ok || held[slot] || slot >= n || costOf(&pods[i]) != fmt.Sprintf("-%d", slot) {
				return false, fmt.Sprint(pods[i].Name, pods[i].Annotations)
			}
			held[slot] = true
		}
		return len(pods) == n, fmt.Sprint(len(pods))
	})
	return pods
}

// The replicas are where they are by chance when the mix is made. What must be
// exact is each type's share of the slots: the highest go first.
func TestPodsThatAreOlderThanTheirMixAreScaledDownExactly(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	web := builders.Deployment("web", 20)
	w.Create(web)
	w.WaitReady("web", 20)
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.AnnotationRepairsPerMinute = 6000 })
	w.Create(builders.CapacityMix("web", 70, 2))
	w.WaitSatisfied("web")
	w.WaitReady("web", 20)
	waitMarked(w, "web", 20)
	evictions := len(w.Evictions())
	w.Scale(web, 14)
	w.RequireExact("web", m, 14)
	assert.Len(t, w.Evictions(), evictions, "no eviction repairs what the scale-down left")
}

func TestPodsWhoseAnnotationsWereRemovedAreScaledDownExactly(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	web := builders.Deployment("web", 20)
	w.Create(builders.CapacityMix("web", 70, 2), web)
	w.WaitExact("web", m, 20, testenv.SettleTimeout)
	for _, p := range w.WaitReady("web", 20) {
		edit(w, p.Name, func(annotations map[string]string) {
			for _, key := range written {
				delete(annotations, key)
			}
		})
	}
	w.Controller(quick)
	waitMarked(w, "web", 20)
	w.Scale(web, 10)
	w.RequireExact("web", m, 10)
}

func TestAnEditedSlotIsRestoredAndItsCostFollows(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.WaitExact("web", split.New(70, 2), 10, testenv.SettleTimeout)
	w.Controller(quick)
	pods := w.Slots(w.WaitReady("web", 10))
	for slot := range pods {
		require.False(t, clusterstate.CostByOthers(pods[slot]), "the cost of a Binding has no manager: %v", pods[slot].ManagedFields)
	}
	for slot, to := range map[int]string{3: "1048575", 4: "5", 6: "-1", 7: "abc"} {
		edit(w, pods[slot].Name, func(annotations map[string]string) { annotations[v1alpha1.SlotAnnotation] = to })
	}
	edit(w, pods[8].Name, func(annotations map[string]string) { delete(annotations, v1alpha1.PodDeletionCostAnnotation) })
	after := w.Slots(waitMarked(w, "web", 10))
	assert.Equal(t, pods[5].Name, after[5].Name, "the pod that holds a slot keeps it against one that claims it by hand")
	for _, slot := range []int{0, 1, 2, 9} {
		assert.Equal(t, pods[slot].Name, after[slot].Name)
	}
	w.RequireExactPods(w.Live("web"), split.New(70, 2))
}

func TestTheUsersDeletionCostStaysWhateverItsValueIs(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(
		builders.CapacityMix("web", 70, 2), builders.Deployment("web", 4),
		builders.CapacityMix("api", 70, 2), builders.Deployment("api", 3, builders.PodAnnotation(v1alpha1.PodDeletionCostAnnotation, "-1")),
	)
	w.WaitExact("web", split.New(70, 2), 4, testenv.SettleTimeout)
	w.WaitExact("api", split.New(70, 2), 3, testenv.SettleTimeout)
	w.Controller(quick)
	pods, api := w.Slots(w.WaitReady("web", 4)), w.Slots(w.WaitReady("api", 3))
	w.WriteCost(pods[2], "kubectl-annotate", "-9")
	for _, p := range []*corev1.Pod{pods[2], api[1]} { // of the latter, slot and cost are as if Berth had written both
		edit(w, p.Name, func(annotations map[string]string) { annotations[v1alpha1.SlotAnnotation] = "17" })
	}
	w.Eventually("the slots are restored", func() (bool, string) {
		s, other := w.Slots(w.Live("web")), w.Slots(w.Live("api"))
		return s[2] != nil && other[1] != nil, fmt.Sprint(slices.Collect(maps.Keys(s)), slices.Collect(maps.Keys(other)))
	})
	assert.Equal(t, "-9", costOf(w.Slots(w.Live("web"))[2]))
	for _, p := range w.Live("api") {
		assert.Equal(t, "-1", costOf(&p))
	}
}

func TestPodsThatNoMixSteersAreNotMarked(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	w.Create(
		builders.Deployment("free", 3),
		builders.Deployment("stock", 3, builders.ByDefault),
		builders.Deployment("pinned", 3, builders.OnNodesWith("karpenter.sh/capacity-type", v1alpha1.CapacityTypeSpot)),
		builders.DaemonSet("agent"), builders.Deployment("web", 3),
	)
	for app, n := range map[string]int{"free": 3, "stock": 3, "pinned": 3, "agent": 10, "web": 3} {
		w.WaitReady(app, n)
	}
	w.Controller(quick)
	w.Create(builders.CapacityMix("stock", 70, 2), builders.CapacityMix("pinned", 70, 2), builders.CapacityMix("agent", 70, 2), builders.CapacityMix("web", 70, 2))
	testenv.Becomes(w, "the pods that the mix steers are marked", 3, func() (marked int) {
		for _, p := range w.Live("web") {
			if costOf(&p) != "" {
				marked++
			}
		}
		return marked
	})
	w.Always(testenv.Short, "no other pod is marked", func() (bool, string) {
		for _, app := range []string{"free", "stock", "pinned", "agent"} {
			for _, p := range w.Live(app) {
				for _, key := range written {
					if _, has := p.Annotations[key]; has {
						return false, fmt.Sprint(p.Name, p.Annotations)
					}
				}
			}
		}
		return true, ""
	})
}

func TestTheEventsOfAWorkloadCountEveryMove(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 90, 2, builders.MaxConcurrent(10)), builders.Deployment("web", 40))
	w.WaitExact("web", split.New(90, 2), 40, testenv.SettleTimeout)
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.ClusterMaxConcurrent = 10 })
	w.WaitSatisfied("web")
	w.ChangeMix("web", builders.SpotPercent(0))
	w.WaitRepaired("web", split.New(0, 2), 40, 2*testenv.SettleTimeout)
	moved := len(w.EvictionsOf("web"))
	assert.GreaterOrEqual(t, moved, 36)
	objects := 0
	w.Eventually(fmt.Sprintf("events about %d moves", moved), func() (bool, string) {
		counted := 0
		objects = 0
		for _, e := range w.Events("web") {
			if e.Reason == v1alpha1.EventReasonMoved {
				counted += int(e.Count)
				objects++
			}
		}
		return counted == moved, fmt.Sprintf("%d counted in %d objects", counted, objects)
	})
	assert.Equal(t, moved, objects, "up to 99 moves in ten minutes have an event each, from which their steps are read")
}
