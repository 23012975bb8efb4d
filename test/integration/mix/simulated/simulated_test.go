// SPDX-License-Identifier: Apache-2.0

// Package simulated_test has the same happen in the simulator and on a real control plane, and demands that both do the same.
package simulated_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/simulator"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

// configure changes what both controllers have: they do not wait, and no domain is in quarantine, which is not simulated.
func configure(c *controller.Configuration) {
	testenv.Impatient(c)
	c.Mix.Rebalance.Storm.WindowSeconds, c.Mix.Rebalance.Storm.QuietSeconds = 1, 1
	c.Mix.Interruptions.QuarantineSeconds = 0
}

func mixOf(percent, floor int32) v1alpha1.CapacityMixSpec {
	return v1alpha1.CapacityMixSpec{SpotPercent: percent, MinOnDemand: floor}
}

func TestASimulationDoesWhatAClusterDoes(t *testing.T) {
	limited := mixOf(60, 1)
	limited.MaxPerDomain = []v1alpha1.DomainLimit{{TopologyKey: corev1.LabelTopologyZone, MaxCount: new(int32(most / len(zones)))}}
	surge := mixOf(50, 1)
	surge.Rebalance = &v1alpha1.RebalanceSpec{Strategy: v1alpha1.RebalanceStrategySurge}
	for _, of := range []trace{
		{name: "no node goes", seed: 1, podsOf: roomy, mixes: []v1alpha1.CapacityMixSpec{mixOf(70, 2), limited}, kinds: []kind{
			scaleUp, scaleDown, rollOut, nothing, scaleUp, scaleDown,
		}},
		{name: "nodes go", seed: 2, podsOf: roomy, mixes: []v1alpha1.CapacityMixSpec{mixOf(70, 2), surge}, kinds: []kind{
			lose, loseAll, drain, scaleUp, scaleDown, rollOut,
		}},
		{name: "spot nodes have little room", seed: 3, podsOf: narrow, mixes: []v1alpha1.CapacityMixSpec{mixOf(90, 0)}, kinds: []kind{
			lose, loseAll, lose, scaleUp, scaleDown, nothing,
		}},
	} {
		t.Run(of.name, func(t *testing.T) {
			of.draw()
			wanted, simulated := of.simulate(t)
			for range 4 {
				again, fastest := of.simulate(t)
				require.Equal(t, wanted, again, "a simulation is the same each time")
				simulated = min(simulated, fastest)
			}
			f := newField(t, &of)
			began := time.Now()
			for i := range of.steps {
				f.apply(i)
				f.require(i, wanted[i])
				t.Logf("%s: %+v", of.steps[i].kind, wanted[i])
			}
			took := time.Since(began)
			t.Logf("%d steps: %s in the simulator, %s on the control plane, %.0f times as long", len(of.steps),
				simulated.Round(time.Millisecond), took.Round(time.Millisecond), took.Seconds()/simulated.Seconds())
		})
	}
}

// simulate returns what the workloads have after each step in the simulator, and how long that takes.
func (t *trace) simulate(test *testing.T) (after [][]seen, took time.Duration) {
	policy := simulator.Policies[0]
	policy.Configuration = controller.Default()
	configure(policy.Configuration)
	var at []time.Duration
	for i := range t.steps {
		at = append(at, time.Duration(i+1)*gap-time.Second)
	}
	began := time.Now()
	states, err := simulator.Observe(test.Context(), t.scenario(), policy, at...)
	took = time.Since(began)
	require.NoError(test, err)
	for _, s := range states {
		var each []seen
		for i := range t.mixes {
			var pods []corev1.Pod
			for _, p := range s.Pods {
				if p.DeletionTimestamp == nil && p.Labels["app"] == appOf(i) {
					pods = append(pods, p)
				}
			}
			moves := s.Moves[types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: appOf(i)}]
			each = append(each, t.look(i, pods, placesOf(s.Nodes), moves))
		}
		after = append(after, each)
	}
	return after, took
}

// seen is what a workload has.
type seen struct {
	spot, onDemand, notReady int
	// borrowed is how many replicas do not run on the type of their slot, and moves how many the rebalancer has evicted.
	borrowed, moves int
	// slots has those that the replicas hold, each with the type that it runs on. Where only some of the spot slots run on spot nodes, it is
	// chance which ones: then it has no types.
	slots string
	// zones has the numbers of replicas in the zones by type, the smallest first. Where nodes were lost, it depends on chance, and is empty.
	zones string
}

// place is where a node is.
type place struct{ capacityType, zone string }

func placesOf(nodes []corev1.Node) map[string]place {
	places := map[string]place{}
	for _, n := range nodes {
		places[n.Name] = place{n.Labels[cluster.CapacityTypeLabel], n.Labels[corev1.LabelTopologyZone]}
	}
	return places
}

// look returns what a workload has.
func (t *trace) look(workload int, pods []corev1.Pod, places map[string]place, moves int) seen {
	s, mix := seen{moves: moves}, split.New(t.mixes[workload].SpotPercent, t.mixes[workload].MinOnDemand)
	var slots []string
	in := map[place]int{}
	for _, p := range pods {
		at := places[p.Spec.NodeName]
		in[at]++
		switch {
		case !testenv.Ready(&p):
			s.notReady++
		case at.capacityType == spot:
			s.spot++
		case at.capacityType == onDemand:
			s.onDemand++
		}
		slot, _ := governing.ClaimedSlot(&p)
		if mix.TypeOf(slot).String() != at.capacityType {
			s.borrowed++
		}
		slots = append(slots, fmt.Sprintf("%d:%s", slot, at.capacityType))
	}
	if s.borrowed > 0 && s.spot > 0 {
		for i := range slots {
			slots[i], _, _ = strings.Cut(slots[i], ":")
		}
	}
	s.slots = sorted(slots)
	if !t.loses() {
		var counts []string
		for at, n := range in {
			counts = append(counts, fmt.Sprintf("%s:%d", at.capacityType, n))
		}
		s.zones = sorted(counts)
	}
	return s
}

func sorted(texts []string) string {
	slices.Sort(texts)
	return strings.Join(texts, " ")
}
