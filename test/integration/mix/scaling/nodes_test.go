// SPDX-License-Identifier: Apache-2.0

package scaling_test

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Ten nodes of four pods, which forty replicas of 70 % fill: the fewest nodes that may have pods at each size of a scale-in. Nodes of
// different types cannot share their pods.
var (
	sizes  = []int{30, 20, 10, 7}
	fewest = []int{9, 6, 3, 2}
)

func tenNodesOfFour() []cluster.NodeSpec {
	four := func(n *cluster.NodeSpec) { n.Pods = 4 }
	return append(cluster.Nodes("spot", 7, four), cluster.Nodes("on-demand", 3, four)...)
}

func packs(as controller.ScaleIn) func(*controller.Configuration) {
	return func(c *controller.Configuration) { c.Mix.ScaleIn, c.Mix.AnnotationRepairsPerMinute = as, 6000 }
}

// nodesOf counts the nodes of pods, without those with the highest slots.
func nodesOf(w *testenv.World, pods []corev1.Pod, size int) int {
	nodes := map[string]bool{}
	for slot, p := range w.Slots(pods) {
		if slot < size {
			nodes[p.Spec.NodeName] = true
		}
	}
	return len(nodes)
}

// waitPacked waits until the slots of forty replicas empty one node after the other.
func waitPacked(w *testenv.World) {
	w.Eventually("the slots are in the order of the nodes", func() (bool, string) {
		found := make([]int, len(sizes))
		pods := w.Live("web")
		for _, p := range pods {
			if _, has := p.Annotations[v1alpha1.SlotAnnotation]; !has {
				return false, "a pod without a slot"
			}
		}
		if held(pods) < len(pods) {
			return false, "a slot is being exchanged"
		}
		for i, size := range sizes {
			found[i] = nodesOf(w, pods, size)
		}
		return fmt.Sprint(found) == fmt.Sprint(fewest), fmt.Sprintf("nodes at %v: %v", sizes, found)
	})
}

// held counts the slots that are held: two pods have one while it is exchanged.
func held(pods []corev1.Pod) int {
	slots := map[string]bool{}
	for _, p := range pods {
		slots[p.Annotations[v1alpha1.SlotAnnotation]] = true
	}
	return len(slots)
}

func TestAScaleInLeavesPodsOnFewNodes(t *testing.T) {
	w := testenv.New(t, tenNodesOfFour()...)
	w.Controller(testenv.Impatient, packs(controller.ScaleInPack))
	m := split.New(70, 2)
	web := builders.Deployment("web", 40)
	w.Create(builders.CapacityMix("web", 70, 2), web)
	w.WaitReady("web", 40)
	w.RequireExact("web", m, 40)
	record := w.Record("web")
	waitPacked(w)
	written := len(w.PodPatches())
	t.Logf("writes for 40 replicas: %d", written)
	require.LessOrEqual(t, written, 80, "two for each replica")
	testenv.Stays(w, 45*time.Second, "nothing more is written", written, func() int { return len(w.PodPatches()) })

	for i, n := range sizes {
		pods := w.ScaleExactly(web, m, int32(n))
		require.LessOrEqual(t, nodesOf(w, pods, n), fewest[i]+1, "nodes with pods at %d replicas", n)
	}
	require.LessOrEqual(t, nodesOf(w, w.Live("web"), 7), 3, "nodes with pods at 7 replicas")
	require.Empty(t, w.Evictions())
	record.RequireOnTheirTypes(m)
	on, all := w.Types(), false
	record.Replay(func(running map[types.UID]*corev1.Pod) {
		if all = all || len(running) == 40; !all {
			return // the first events are about the pods that there were
		}
		n := 0
		for _, p := range running {
			if on[p.Spec.NodeName] == capacity.OnDemand {
				n++
			}
		}
		require.GreaterOrEqual(t, n, m.OnDemand(7), "replicas on on-demand nodes, of %d", len(running))
	})
}

// roundsEnv is the number of rounds of the measurement of docs/performance.md; it is left out without it.
const roundsEnv = "BERTH_SCALEIN_ROUNDS"

func TestNodesWithPodsAfterScaleIns(t *testing.T) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv(roundsEnv), "0"))
	require.NoError(t, err)
	if rounds == 0 {
		t.Skip("set " + roundsEnv + " to measure")
	}
	for _, as := range []controller.ScaleIn{controller.ScaleInKeep, controller.ScaleInPack, ""} {
		t.Run(cmp.Or(string(as), "Stock"), func(t *testing.T) {
			w := testenv.New(t, tenNodesOfFour()...)
			web := builders.Deployment("web", 40)
			if as == "" {
				w.StartStock()
				builders.ByDefault(&web.Spec.Template)
			} else {
				w.Controller(testenv.Impatient, packs(as))
				w.Create(builders.CapacityMix("web", 70, 2))
			}
			w.Create(web)
			sums, exact := make([]int, len(sizes)), 0
			for range rounds {
				w.Scale(web, 40)
				w.WaitReady("web", 40)
				if as == controller.ScaleInPack {
					waitPacked(w)
				}
				exact += round(w, web, sums)
			}
			line := ""
			for _, sum := range sums {
				line += fmt.Sprintf(" %.1f", float64(sum)/float64(rounds))
			}
			t.Logf("nodes with pods at %v of 40, mean of %d rounds:%s; exact %d of %d times; evictions %d; writes %d", sizes, rounds, line, exact,
				rounds*len(sizes), len(w.Evictions()), len(w.PodPatches()))
		})
	}
}

// round scales in, and counts the nodes with pods at each size, and the sizes at which the split is exact.
func round(w *testenv.World, web *appsv1.Deployment, sums []int) (exact int) {
	m := split.New(70, 2)
	for i, n := range sizes {
		w.Scale(web, int32(n))
		pods, nodes, on := w.WaitReady("web", n), map[string]bool{}, w.Types()
		spot := 0
		for _, p := range pods {
			if nodes[p.Spec.NodeName] = true; on[p.Spec.NodeName] == capacity.Spot {
				spot++
			}
		}
		if sums[i] += len(nodes); spot == m.Spot(n) {
			exact++
		}
	}
	return exact
}
