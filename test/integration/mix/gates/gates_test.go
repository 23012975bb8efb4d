// SPDX-License-Identifier: Apache-2.0

// Package gates_test is about pods with the scheduling gate of Berth, which get
// their slot before they are scheduled, by any scheduler.
package gates_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

// newWorld is a world with the stock scheduler beside Berth's.
func newWorld(t *testing.T, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	w.StartStock()
	return w
}

// requireOpened demands that every pod was limited to the type of its slot, in a way that all schedulers see.
func requireOpened(w *testenv.World, pods []corev1.Pod) {
	w.T.Helper()
	for i := range pods {
		p := &pods[i]
		limited, ok := gate.LimitedTo(p)
		require.True(w.T, ok, "pod %s was given its slot by its gate: %v", p.Name, p.Annotations)
		assert.Equal(w.T, limited.String(), p.Spec.NodeSelector[capacity.KarpenterCapacityType], p.Name)
		assert.Equal(w.T, limited.String(), p.Annotations[v1alpha1.CapacityTypeAnnotation], p.Name)
		assert.Equal(w.T, "-"+p.Annotations[v1alpha1.SlotAnnotation], p.Annotations[v1alpha1.PodDeletionCostAnnotation], p.Name)
		assert.Empty(w.T, p.Spec.SchedulingGates, p.Name)
	}
}

func TestGatedPodsAreExactWithAnyScheduler(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	for name, scheduler := range map[string]func(*corev1.PodTemplateSpec){
		"berth": builders.SchedulerName(builders.Scheduler), "stock": builders.ByDefault,
	} {
		w.Run(name, func(t *testing.T, w *testenv.World) {
			m := split.New(70, 2)
			w.Create(builders.CapacityMix(name, 70, 2))
			web := builders.Deployment(name, 20, builders.Gated, scheduler)
			w.Create(web)
			requireOpened(w, w.RequireExact(name, m, 20))
			for _, n := range []int32{40, 13, 5, 20, 1, 8} {
				w.ScaleExactly(web, m, n)
			}
			testenv.Patch(w, web, func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"revision": "2"} })
			w.Eventually("the new revision runs alone", func() (bool, string) {
				pods := w.Live(name)
				n := len(testenv.Where(pods, func(p *corev1.Pod) bool { return p.Annotations["revision"] == "2" && testenv.Bound(p) }))
				return n == 8 && len(pods) == 8, fmt.Sprintf("%d of %d", n, len(pods))
			})
			requireOpened(w, w.RequireExact(name, m, 8))
		})
	}
}

// M22: by default a hard spread counts the nodes of one type only. Of the nodes that it allows, Berth's scheduler prefers those in
// zones with few replicas of the whole workload.
func TestAHardSpreadIsEvenForBothTypesTogether(t *testing.T) {
	var nodes []cluster.NodeSpec
	for _, zone := range []string{"zone-a", "zone-b"} {
		for _, capacityType := range []string{"spot", "on-demand"} {
			nodes = append(nodes, cluster.Nodes(capacityType, 2, func(o *cluster.NodeSpec) { o.Name, o.Zone = zone+"-"+o.Name, zone })...)
		}
	}
	w := testenv.New(t, nodes...)
	zones := map[string]string{}
	for _, n := range nodes {
		zones[n.Name] = n.Zone
	}
	for i := range 6 {
		app := fmt.Sprint("w", i)
		w.Create(builders.CapacityMix(app, 50, 0), builders.Deployment(app, 6, builders.Gated, func(t *corev1.PodTemplateSpec) {
			t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels(app)},
			}}
		}))
	}
	for i := range 6 {
		app := fmt.Sprint("w", i)
		in := map[string]int{}
		for _, p := range w.RequireExact(app, split.New(50, 0), 6) {
			in[zones[p.Spec.NodeName]]++
		}
		assert.Equal(t, map[string]int{"zone-a": 3, "zone-b": 3}, in, "%s, with 3 spot and 3 on-demand replicas", app)
	}
}

// A queue removes its gate from the pods that it admits, in any order. The others hold no slot meanwhile.
func TestTheLastOfSeveralGatesGivesASlot(t *testing.T) {
	const queue = "example.com/queue"
	w := newWorld(t, testenv.Roomy()...)
	m := split.New(50, 2)
	w.Create(builders.CapacityMix("web", 50, 2), builders.Deployment("web", 10, builders.Gated, func(t *corev1.PodTemplateSpec) {
		t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: queue})
	}))
	w.Reaches("gated pods", 10, func() int { return len(w.Live("web")) })
	admitted := 0
	for _, n := range []int{3, 4, 10} {
		pods := testenv.Where(w.Live("web"), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
		for _, p := range pods[len(pods)-(n-admitted):] {
			testenv.Patch(w, &p, func(p *corev1.Pod) {
				p.Spec.SchedulingGates = slices.DeleteFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == queue })
			})
		}
		admitted = n
		bound := func() []corev1.Pod { return testenv.Where(w.Live("web"), testenv.Bound) }
		w.Reaches("bound pods", n, func() int { return len(bound()) })
		w.RequireExactPods(bound(), m)
	}
}

func TestABurstOf500GatedPodsCostsOnePatchAndOneBindingEach(t *testing.T) {
	w := newWorld(t, append(cluster.Nodes("spot", 8), cluster.Nodes("on-demand", 6)...)...)
	m := split.New(70, 5)
	w.Create(builders.CapacityMix("web", 70, 5))
	web := builders.Deployment("web", 500, builders.Gated)
	w.Create(web)
	pods := w.RequireExact("web", m, 500)
	requireOpened(w, pods)
	patches, bindings := map[string]int{}, map[string]int{}
	for _, r := range w.Audit(func(r testenv.Request) bool { return r.Write() && r.Name != "" }) {
		switch {
		case r.Resource == "pods" && r.Verb == "patch":
			patches[r.Name]++
		case r.Resource == "pods/binding":
			bindings[r.Name]++
		}
	}
	for i := range pods {
		assert.Equal(t, 1, patches[pods[i].Name], "patches of %s", pods[i].Name)
		assert.Equal(t, 1, bindings[pods[i].Name], "bindings of %s", pods[i].Name)
	}
}

func TestAStatefulSetsGatedPodsHaveTheSlotsOfTheirOrdinals(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("db", 50, 1), builders.StatefulSet("db", 6, appsv1.ParallelPodManagement, builders.Gated, builders.ByDefault))
	pods := w.RequireExact("db", split.New(50, 1), 6)
	requireOpened(w, pods)
	for slot, p := range w.Slots(pods) {
		assert.Equal(t, fmt.Sprintf("db-%d", slot), p.Name)
	}
}

func TestAPodWithATypeOrWithoutAMixIsUngatedUnchanged(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("pinned", 0, 0), builders.Deployment("pinned", 2, builders.Gated, builders.ByDefault, builders.OnNodesWith(capacity.KarpenterCapacityType, "spot")))
	w.Create(builders.Deployment("free", 2, builders.Gated, builders.ByDefault))
	for app, reason := range map[string]string{"pinned": v1alpha1.UngateReasonPinned, "free": v1alpha1.UngateReasonNoMix} {
		for _, p := range w.WaitBound(app, 2) {
			assert.Equal(t, reason, p.Annotations[v1alpha1.UngateReasonAnnotation], app)
			assert.NotContains(t, p.Annotations, v1alpha1.ClaimAnnotation, app)
		}
	}
	assert.Equal(t, 2, w.Split("pinned").Spot)
}

func TestTolerationsOfTheTypeAreAddedToThoseOfThePod(t *testing.T) {
	tainted := cluster.Nodes("spot", 2, func(n *cluster.NodeSpec) {
		n.Taints = append(n.Taints, corev1.Taint{Key: "spot", Value: "true", Effect: corev1.TaintEffectNoSchedule})
	})
	w := newWorld(t, append(tainted, cluster.Nodes("on-demand", 2)...)...)
	cm := builders.CapacityMix("web", 50, 0)
	cm.Spec.Tolerations = &v1alpha1.TolerationsByType{Spot: []v1alpha1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}}
	w.Create(cm, builders.Deployment("web", 4, builders.Gated, builders.ByDefault, builders.RequireNodeLabel(corev1.LabelOSStable, corev1.NodeSelectorOpNotIn, "windows"), func(t *corev1.PodTemplateSpec) {
		t.Spec.Tolerations = []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}}
		t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/other"})
	}))
	w.Reaches("pods with the gate of another controller", 4, func() int { return len(w.Live("web")) })
	for _, p := range w.Live("web") {
		require.Len(t, p.Spec.SchedulingGates, 2, "Berth's gate is the last to go")
		testenv.Patch(w, &p, func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
		})
	}
	for _, p := range w.RequireExact("web", split.New(50, 0), 4) {
		limited, _ := gate.LimitedTo(&p)
		tolerated := map[string]bool{}
		for _, t := range p.Spec.Tolerations {
			tolerated[t.Key] = true
		}
		assert.True(t, tolerated["mine"])
		assert.Equal(t, limited == capacity.Spot, tolerated["spot"], "%s is %s", p.Name, limited)
		require.NotNil(t, p.Spec.Affinity)
		terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		assert.Equal(t, corev1.LabelOSStable, terms[0].MatchExpressions[0].Key)
	}
}

// The API server refuses pods with such a toleration, as its feature gate is off: the gate would stay.
func TestTolerationsThatCompareAreIgnoredWithoutTheFeatureGate(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	cm := builders.CapacityMix("web", 50, 0)
	cm.Spec.Tolerations = &v1alpha1.TolerationsByType{Spot: []v1alpha1.Toleration{
		{Key: "example.com/interruptions", Operator: corev1.TolerationOpLt, Value: "50"}, {Key: "spot", Operator: corev1.TolerationOpExists},
	}}
	w.Create(cm, builders.Deployment("web", 4, builders.Gated))
	pods := w.RequireExact("web", split.New(50, 0), 4)
	requireOpened(w, pods)
	for _, p := range pods {
		tolerated := map[string]bool{}
		for _, t := range p.Spec.Tolerations {
			tolerated[t.Key] = true
		}
		limited, _ := gate.LimitedTo(&p)
		assert.Equal(t, limited == capacity.Spot, tolerated["spot"], p.Name)
		assert.NotContains(t, tolerated, "example.com/interruptions", p.Name)
	}
	w.WaitEvent("web", "the mix has a warning", func(e *corev1.Event) bool {
		return e.Reason == v1alpha1.EventReasonTolerationsIgnored && strings.Contains(e.Message, `["example.com/interruptions Lt 50"]`)
	})
}

func TestAGatedPodSeenBeforeItsMixWaitsUntilItIsCertain(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	for round := range 5 {
		app := fmt.Sprintf("web-%d", round)
		w.Create(builders.CapacityMix(app, 50, 0), builders.Deployment(app, 10, builders.Gated, builders.ByDefault))
		requireOpened(w, w.RequireExact(app, split.New(50, 0), 10))
	}
}

// A pending replica keeps its slot: the ones that come later take the next ones.
func TestAPendingReplicaKeepsItsSlotAndDoesNotBlockOthers(t *testing.T) {
	w := newWorld(t, cluster.Nodes("spot", 4)...)
	w.Create(builders.CapacityMix("web", 70, 2))
	web := builders.Deployment("web", 20, builders.Gated, builders.ByDefault)
	w.Create(web)
	w.WaitSplit("web", "the spot slots run, the on-demand ones wait", testenv.Split{Spot: 14, Pending: 6})
	w.WaitUnschedulable("web", 6)
	w.AddNodes(cluster.Nodes("on-demand", 1)...)
	requireOpened(w, w.RequireExact("web", split.New(70, 2), 20))
}

func TestTheCopyOfAClaimIsIgnored(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 0, 0), builders.Deployment("web", 3, builders.Gated, func(t *corev1.PodTemplateSpec) {
		t.Annotations[v1alpha1.SlotAnnotation], t.Annotations[v1alpha1.ClaimAnnotation] = "7", "another-pod/spot"
	}))
	w.RequireExact("web", split.New(0, 0), 3)
}
