// SPDX-License-Identifier: Apache-2.0

package gatefallback_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// shared is a mix of all spot for several workloads: those of which the pods have this label.
func shared(waitSeconds int32) *v1alpha1.CapacityMix {
	return builders.CapacityMix("shared", 100, 0, onDemandAfter(waitSeconds), func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Selector.MatchLabels = map[string]string{"mix": "shared"}
	})
}

func ofShared(t *corev1.PodTemplateSpec) { t.Labels["mix"] = "shared" }

// spotIn returns spot nodes in a zone, with room for some pods each.
func spotIn(zone string, n, pods int) []cluster.NodeSpec {
	return cluster.Nodes("spot", n, func(o *cluster.NodeSpec) {
		o.Name, o.Zone, o.Pods = zone+"-"+o.Name, zone, pods
	})
}

// waitOn waits until an app has so many pods on each type.
func waitOn(w *testenv.World, app string, spot, onDemand int) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Eventually(fmt.Sprintf("%d pods of %s run on spot, %d on on-demand", spot, app, onDemand), func() (bool, string) {
		pods = w.Live(app)
		s := w.SplitOf(pods)
		return s.Spot == spot && s.OnDemand == onDemand && len(pods) == spot+onDemand, s.String()
	})
	return pods
}

// neverDeleted demands that no pod of an app waited until it was deleted.
func neverDeleted(w *testenv.World, r *testenv.Recording, app string) {
	w.T.Helper()
	of := map[string]bool{}
	for _, e := range r.Events() {
		of[e.Pod.Name] = true
	}
	for _, d := range deletions(w) {
		assert.False(w.T, of[d.Name], "pod %s of %s was deleted", d.Name, app)
	}
}

// Zone a lost one of two spot nodes, and the other one is full. Zone b has room.
func TestAZoneWithoutSpotSendsNoPodOfAnotherToOnDemand(t *testing.T) {
	nodes := append(cluster.Nodes("on-demand", 4), spotIn("zone-b", 1, 20)...)
	w := testenv.New(t, append(nodes, spotIn("zone-a", 2, 3)...)...)
	s := start(w)
	w.Create(shared(10))
	inZone := func(zone string) func(*corev1.PodTemplateSpec) {
		return builders.OnNodesWith(corev1.LabelTopologyZone, zone)
	}
	w.Create(builders.Deployment("a", 6, builders.Gated, ofShared, inZone("zone-a")))
	waitOn(w, "a", 6, 0)
	w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "zone-a-spot-1"}})
	w.Eventually("the pods that lost their node run on on-demand", func() (bool, string) {
		types := w.Types()
		for _, p := range w.Live("a") { // the pod garbage collector would take a minute
			if p.Spec.NodeName != "" && types[p.Spec.NodeName] == capacity.Unknown {
				w.Delete(&p)
			}
		}
		split := w.Split("a")
		return split.Spot == 3 && split.OnDemand == 3, split.String()
	})
	require.Equal(t, 1, breakers(w, s, fallback.Open)+breakers(w, s, fallback.HalfOpen), "of zone a")

	recording := w.Record("b")
	w.Create(builders.Deployment("b", 3, builders.Gated, ofShared, inZone("zone-b")))
	waitOn(w, "b", 3, 0)
	neverDeleted(w, recording, "b")
	anywhere := w.Record("anywhere")
	w.Create(builders.Deployment("anywhere", 3, builders.Gated, ofShared))
	waitOn(w, "anywhere", 3, 0)
	neverDeleted(w, anywhere, "anywhere")
}

// Spot nodes come back empty, long before spot would be tried again.
func TestSpotNodesThatAreBackAreUsedAtOnce(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	s := start(w)
	w.Controller(testenv.Impatient)
	m := split.New(100, 0)
	w.Create(builders.CapacityMix("web", 100, 0, onDemandAfter(30), builders.MaxConcurrent(4)))
	web := builders.Deployment("web", 6, builders.Gated)
	w.Create(web)
	waitOnDemand(w, "web", 6)
	require.Equal(t, 1, breakers(w, s, fallback.Open))
	w.AddNodes(cluster.Nodes("spot", 3)...)
	w.Scale(web, 12)
	w.Eventually("12 replicas, the new ones limited to spot", func() (bool, string) {
		pods := w.Live("web")
		spot := testenv.Where(pods, func(p *corev1.Pod) bool { limited, ok := gate.LimitedTo(p); return ok && limited == capacity.Spot })
		return len(pods) == 12 && len(spot) >= 6, fmt.Sprintf("%d of %d", len(spot), len(pods))
	})
	w.WaitExact("web", m, 12, testenv.SettleTimeout)
	assert.Len(t, w.Evictions(), 6, "those that fell back, each moved once")
	assert.Len(t, deletions(w), 6, "only those that waited at first")
}

// One of two zones has a full spot node. A hard spread keeps pods from the other one, which has room.
func TestTheSpreadOfAPodIsNoLackOfSpot(t *testing.T) {
	nodes := append(cluster.Nodes("on-demand", 4), spotIn("zone-a", 1, 20)...)
	w := testenv.New(t, append(nodes, spotIn("zone-b", 1, 1)...)...)
	s := start(w)
	w.Fill("zone-b-spot-0", 1)
	w.Create(shared(8))
	w.Create(builders.Deployment("spread", 5, builders.Gated, ofShared, func(t *corev1.PodTemplateSpec) {
		t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels("spread")},
		}}
	}))
	waitOn(w, "spread", 1, 4)
	assert.Len(t, deletions(w), 4, "each waits once")
	assert.Zero(t, breakers(w, s, fallback.Open)+breakers(w, s, fallback.HalfOpen))
	recording := w.Record("web")
	w.Create(builders.Deployment("web", 3, builders.Gated, ofShared))
	waitOn(w, "web", 3, 0)
	neverDeleted(w, recording, "web")
}
