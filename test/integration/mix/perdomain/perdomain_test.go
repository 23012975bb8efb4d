// SPDX-License-Identifier: Apache-2.0

// Package perdomain_test proves, on a real control plane, that no domain gets more replicas than a mix allows: of any scheduler, at any
// moment, while replicas are created, move and leave.
package perdomain_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand
)

// in returns n nodes of a type in a zone.
func in(zone, capacityType string, n int, changes ...func(*cluster.NodeSpec)) []cluster.NodeSpec {
	return cluster.Nodes(capacityType, n, append(changes, func(o *cluster.NodeSpec) { o.Name, o.Zone = zone+"-"+o.Name, zone })...)
}

// lopsided are nodes of both types: most of them in zone a, where schedulers that balance load put most pods.
func lopsided() (nodes []cluster.NodeSpec) {
	for _, t := range []string{spot, onDemand} {
		nodes = append(nodes, in("zone-a", t, 6)...)
		nodes = append(nodes, in("zone-b", t, 1)...)
		nodes = append(nodes, in("zone-c", t, 1)...)
	}
	return nodes
}

// perZone limits the share of a group's replicas in one zone.
func perZone(percent int32) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) {
		m.Spec.MaxPerDomain = []v1alpha1.DomainLimit{{TopologyKey: corev1.LabelTopologyZone, MaxPercent: &percent}}
	}
}

// zonesOf are the zones of all nodes, by name.
func zonesOf(w *testenv.World) map[string]string {
	zones := map[string]string{}
	for _, n := range testenv.List(w, &corev1.NodeList{}).Items {
		zones[n.Name] = n.Labels[corev1.LabelTopologyZone]
	}
	return zones
}

// perZoneOf counts the pods in each zone.
func perZoneOf(w *testenv.World, pods []corev1.Pod) map[string]int {
	zones, counts := zonesOf(w), map[string]int{}
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" {
			counts[zones[node]]++
		}
	}
	return counts
}

// requireNeverMore demands that at no moment a zone had more pods that do not terminate.
func requireNeverMore(w *testenv.World, r *testenv.Recording, most int) {
	w.T.Helper()
	zones, of, counts := zonesOf(w), map[types.UID]string{}, map[string]int{}
	for _, e := range r.Events() {
		was, is := of[e.Pod.UID], zones[e.Pod.Spec.NodeName]
		if e.Type == "DELETED" || e.Pod.DeletionTimestamp != nil {
			is = ""
		}
		counts[was]--
		counts[is]++
		of[e.Pod.UID] = is
		if is != "" {
			require.LessOrEqual(w.T, counts[is], most, "pods in %s at %s", is, e.At)
		}
	}
	require.NotEmpty(w.T, of)
}

func TestNoZoneHasMoreReplicasThanTheMixAllows(t *testing.T) {
	w := testenv.New(t, lopsided()...)
	recording := w.Record("web")
	web, m := builders.Deployment("web", 12), split.New(50, 0)
	w.Create(builders.CapacityMix("web", 50, 0, perZone(34)), web)
	assert.Equal(t, map[string]int{"zone-a": 4, "zone-b": 4, "zone-c": 4}, perZoneOf(w, w.RequireExact("web", m, 12)), "34% of 12")
	requireNeverMore(w, recording, 4)
	pods := w.ScaleExactly(web, m, 24)
	assert.Equal(t, map[string]int{"zone-a": 8, "zone-b": 8, "zone-c": 8}, perZoneOf(w, pods), "34% of 24")
	requireNeverMore(w, recording, 8)
}

func TestAPodWaitsForAnotherDomainAndForASiblingToLeave(t *testing.T) {
	w := testenv.New(t, in("zone-a", onDemand, 2)...)
	w.Create(builders.CapacityMix("web", 0, 0, builders.MaxPerZone(2)), builders.Deployment("web", 4))
	const full = "in a full domain: 2 of at most 2 replicas are in zone-a"
	w.Eventually("two pods run, and the others have the reason", func() (bool, string) {
		bound, told := 0, 0
		for _, p := range w.Live("web") {
			switch c := conditionOf(&p); {
			case p.Spec.NodeName != "":
				bound++
			case c != nil && strings.Contains(c.Message, full):
				told++
			}
		}
		return bound == 2 && told == 2, fmt.Sprintf("%d bound, %d told", bound, told)
	})
	leaves := testenv.Where(w.Live("web"), testenv.Bound)[0]
	w.Delete(&leaves) // its successor, or one that waits, has its place
	w.Eventually("zone a is full again", func() (bool, string) {
		pods := w.Live("web")
		counts := perZoneOf(w, pods)
		return len(pods) == 4 && counts["zone-a"] == 2, fmt.Sprint(counts)
	})
	w.AddNodes(in("zone-b", onDemand, 1)...)
	assert.Equal(t, map[string]int{"zone-a": 2, "zone-b": 2}, perZoneOf(w, w.WaitBound("web", 4)))
}

func conditionOf(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return c
		}
	}
	return nil
}

// The stock scheduler has the node affinity alone.
func TestGatedPodsKeepToTheLimitWithAnyScheduler(t *testing.T) {
	w := testenv.New(t, lopsided()...)
	w.StartStock()
	for name, scheduler := range map[string]func(*corev1.PodTemplateSpec){
		"berth": builders.SchedulerName(builders.Scheduler), "stock": builders.ByDefault,
	} {
		w.Run(name, func(t *testing.T, w *testenv.World) {
			recording := w.Record(name)
			web, m := builders.Deployment(name, 12, builders.Gated, scheduler), split.New(50, 0)
			w.Create(builders.CapacityMix(name, 50, 0, perZone(34)), web)
			assert.Equal(t, map[string]int{"zone-a": 4, "zone-b": 4, "zone-c": 4}, perZoneOf(w, w.RequireExact(name, m, 12)))
			requireNeverMore(w, recording, 4)
		})
	}
}

// An autoscaler brings nodes for pods that say which zones they cannot use. Its part is played by the test.
func TestGatedPodsNameTheZonesThatAreFull(t *testing.T) {
	w := testenv.New(t, in("zone-a", onDemand, 2)...)
	w.StartStock()
	w.Create(builders.CapacityMix("web", 0, 0, builders.MaxPerZone(2)), builders.Deployment("web", 6, builders.Gated, builders.ByDefault))
	w.Eventually("two pods run, two require another zone, and the others wait for these", func() (bool, string) {
		states := map[string]int{}
		for _, p := range w.Live("web") {
			switch {
			case p.Spec.NodeName != "":
				states["bound"]++
			case len(p.Spec.SchedulingGates) > 0:
				states["gated"]++
			case excludes(&p, "zone-a"):
				states["elsewhere"]++
			}
		}
		return maps.Equal(states, map[string]int{"bound": 2, "elsewhere": 2, "gated": 2}), fmt.Sprint(states)
	})
	w.AddNodes(in("zone-b", onDemand, 1)...)
	w.Eventually("zone b is full, and the last two require another zone", func() (bool, string) {
		pods := w.Live("web")
		last := testenv.Where(pods, func(p *corev1.Pod) bool { return excludes(p, "zone-a") && excludes(p, "zone-b") })
		counts := perZoneOf(w, pods)
		return counts["zone-b"] == 2 && len(last) == 2, fmt.Sprint(counts, len(last))
	})
	w.AddNodes(in("zone-c", onDemand, 1)...)
	assert.Equal(t, map[string]int{"zone-a": 2, "zone-b": 2, "zone-c": 2}, perZoneOf(w, w.WaitBound("web", 6)))
}

// excludes reports whether the affinity of a pod excludes a zone.
func excludes(p *corev1.Pod, zone string) bool {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range term.MatchExpressions {
			if r.Key == corev1.LabelTopologyZone && r.Operator == corev1.NodeSelectorOpNotIn && strings.Contains(strings.Join(r.Values, " "), zone) {
				return true
			}
		}
	}
	return false
}

// Both zones are full. A replica moves to the other type in the zone that it leaves.
func TestMovesKeepToTheLimit(t *testing.T) {
	w := testenv.New(t, append(in("zone-a", onDemand, 1), in("zone-b", onDemand, 1)...)...)
	recording := w.Record("web")
	w.Create(builders.CapacityMix("web", 50, 0, builders.MaxPerZone(2)), builders.Deployment("web", 4))
	require.Equal(t, map[string]int{"zone-a": 2, "zone-b": 2}, perZoneOf(w, w.WaitReady("web", 4)))
	w.AddNodes(append(in("zone-a", spot, 1), in("zone-b", spot, 1)...)...)
	w.Controller(testenv.Impatient)
	pods := w.WaitExact("web", split.New(50, 0), 4, testenv.SettleTimeout)
	assert.Equal(t, map[string]int{"zone-a": 2, "zone-b": 2}, perZoneOf(w, pods))
	requireNeverMore(w, recording, 2)
}
