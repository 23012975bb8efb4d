// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/sim/optimum"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/simulator/store"
)

// A webhook that counts each pod reaches the mix of any number, and restricts no pod to a subset that is closed.
func TestPropertyAWebhookReachesTheMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 5).Draw(t, "floor"))
		var pods split.Count
		for n := range rapid.IntRange(0, 40).Draw(t, "pods") {
			require.True(t, m.Exact(pods), "%d pods", n)
			closed := rapid.SampledFrom([]capacity.Type{capacity.Spot, capacity.OnDemand}).Draw(t, "closed")
			require.NotEqual(t, closed, subsets(m, pods, func(t capacity.Type) bool { return t != closed }))
			require.Equal(t, capacity.Unknown, subsets(m, pods, func(capacity.Type) bool { return false }))
			pods.Add(subsets(m, pods, func(capacity.Type) bool { return true }))
		}
	})
}

// What a storm has driven to on-demand nodes stays there, as nothing moves it.
func TestNothingReturnsUnderAWebhook(t *testing.T) {
	s := scenarioOf(10*time.Hour, 5, &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2})
	s.NodePools[0].Availability = available(t, "0,40\n3600,0\n10800,40\n100000,40\n")
	r := simulate(t, s, "WebhookSubsets")
	before, storm, last := at(t, r, 50*time.Minute), at(t, r, 110*time.Minute), r.Series[len(r.Series)-1]
	assert.Equal(t, [2]int{35, 15}, [2]int{before.ReadySpot, before.ReadyOnDemand}, "each pod gets the type that is missing")
	assert.Equal(t, [2]int{0, 50}, [2]int{storm.ReadySpot, storm.ReadyOnDemand}, "their successors get the other type")
	assert.Equal(t, [2]int{0, 50}, [2]int{last.ReadySpot, last.ReadyOnDemand}, "spot nodes are available again, and none returns")
	assert.Zero(t, r.Moves)
	assert.Equal(t, 35, r.InterruptedReplicas)
	assert.Greater(t, r.BelowWantedReplicaMinutes, 35*rescheduleAfter.Minutes(), "they wait until they are deleted")

	s.Workloads[0].Events = []scenario.Event{{At: after(5 * time.Hour), Rollout: true}}
	last = simulate(t, s, "WebhookSubsets").Series[len(r.Series)-1]
	assert.Equal(t, [2]int{35, 15}, [2]int{last.ReadySpot, last.ReadyOnDemand}, "a rollout creates all pods")
}

func TestPropertyTheHedgeHasOneMoreAndReplacesWhatIsNotReady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 30).Draw(t, "floor"))
		wanted, ready := rapid.Int32Range(1, 20).Draw(t, "wanted"), rapid.Int32Range(0, 30).Draw(t, "ready")
		spot, onDemand := spotHedge(m, wanted, ready)
		base := min(m.MinOnDemand, wanted)
		require.Equal(t, wanted+1, spot+base, "one more than wanted")
		require.GreaterOrEqual(t, onDemand, base)
		require.LessOrEqual(t, onDemand, wanted)
		require.GreaterOrEqual(t, min(ready, spot)+onDemand, wanted, "as many as wanted, once all are Ready")
		if ready >= spot {
			require.Equal(t, base, onDemand)
		}
	})
	spot, onDemand := spotHedge(split.New(70, 2), 0, 0)
	assert.Zero(t, spot+onDemand, "none is wanted")
}

// hedged simulates a while, and returns the world as it is then.
func hedged(t *testing.T, s *scenario.Scenario, d time.Duration) (w *world, of *workload) {
	t.Helper()
	s.Duration = after(d)
	w, err := newWorld(t.Context(), s, policy("SpotHedge"))
	require.NoError(t, err)
	t.Cleanup(w.scheduler.Close)
	require.NoError(t, w.run(t.Context(), func(time.Duration) {}))
	return w, w.workloads[0]
}

func TestOnDemandReplicasReplaceThoseThatSpotLost(t *testing.T) {
	s := scenarioOf(0, 1, &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2})
	s.NodePools[0].Availability = available(t, "0,40\n3600,0\n10800,40\n100000,40\n")
	ready := func(d time.Duration) [2]int {
		_, of := hedged(t, s, d)
		return [2]int{of.tally.spot, of.tally.onDemand}
	}
	assert.Equal(t, [2]int{9, 2}, ready(50*time.Minute), "one spot replica is extra")
	lost := time.Hour + time.Duration(s.NodePools[0].NoticeSeconds)*time.Second
	_, of := hedged(t, s, lost+decideEvery+time.Second)
	assert.Len(t, of.hedge.onDemand.sorted(nil), 10, "they are created within seconds")
	assert.Len(t, of.hedge.spot.sorted(nil), 9, "the spot replicas wait for nodes")
	assert.Equal(t, [2]int{0, 10}, ready(110*time.Minute))
	assert.Equal(t, [2]int{9, 2}, ready(5*time.Hour), "on-demand replicas end once spot replicas are Ready")

	s.Workloads[0].Events = []scenario.Event{
		{At: after(5 * time.Hour), Rollout: true}, {At: after(6 * time.Hour), Replicas: new(int32(4))}, {At: after(7 * time.Hour), Replicas: new(int32(0))},
	}
	assert.Equal(t, [2]int{9, 2}, ready(330*time.Minute), "a rollout keeps the sizes")
	assert.Equal(t, [2]int{3, 2}, ready(390*time.Minute))
	assert.Equal(t, [2]int{}, ready(8*time.Hour))
}

// A workload that has more Ready replicas than wanted has no more than these in the figures.
func TestTheExtraReplicaCountsForItsCostOnly(t *testing.T) {
	s := scenarioOf(2*time.Hour, 1, &v1alpha1.CapacityMixSpec{SpotPercent: 100})
	r := simulate(t, s, "SpotHedge")
	last := r.Series[len(r.Series)-1]
	assert.Equal(t, [2]int{10, 0}, [2]int{last.ReadySpot, last.ReadyOnDemand})
	assert.LessOrEqual(t, r.ReadyReplicaMinutes, r.WantedReplicaMinutes)
	assert.Greater(t, r.SpotNodeHours, 3.5, "11 replicas are on two nodes")
}

func TestReplicasAvoidZonesThatLostSome(t *testing.T) {
	s := scenarioOf(0, 1, &v1alpha1.CapacityMixSpec{SpotPercent: 100})
	s.Workloads[0].Replicas, s.Workloads[0].CPU = 8, s.NodePools[0].CPU
	s.NodePools = s.NodePools[:1]
	for _, zone := range []string{"b", "c"} {
		p := poolOf("spot", 0.05)
		p.Name, p.Zone = "spot-"+zone, zone
		s.NodePools = append(s.NodePools, p)
	}
	s.NodePools[0].Availability = available(t, "0,40\n3600,0\n10800,40\n100000,40\n")
	zones := func(d time.Duration) map[string]int {
		w, of := hedged(t, s, d)
		n := map[string]int{}
		for _, pod := range of.hedge.spot.sorted(nil) {
			if ready(pod) {
				node, _ := store.Get[*corev1.Node](w.store, "", pod.Spec.NodeName)
				n[node.Labels[corev1.LabelTopologyZone]]++
			}
		}
		return n
	}
	assert.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3}, zones(50*time.Minute))
	storm := zones(110 * time.Minute)
	assert.Equal(t, 9, storm["b"]+storm["c"], "%v", storm)
	assert.Zero(t, storm["a"])
	assert.InDelta(t, storm["b"], storm["c"], 1)
	s.NodePools[1].Availability = available(t, "0,40\n14400,0\n100000,0\n")
	assert.Equal(t, 9, zones(5 * time.Hour)["c"], "a zone that lost some is left out while another one is left")
	s.NodePools[2].Availability = available(t, "0,40\n18000,0\n100000,0\n")
	assert.Equal(t, 9, zones(7 * time.Hour)["a"], "none is left out once all lost some")
}

// What a policy does not pay for is missing: with a node for each replica that is missing, or not on on-demand, it costs the optimum.
func TestPropertyNoPolicyCostsLessThanTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scenarioOf(2*time.Hour, 1, &v1alpha1.CapacityMixSpec{
			SpotPercent: rapid.Int32Range(0, 100).Draw(t, "percent"), MinOnDemand: rapid.Int32Range(0, 3).Draw(t, "floor"),
			Rebalance: &v1alpha1.RebalanceSpec{Provisioning: v1alpha1.ProvisioningPlaceholder},
		})
		s.Workloads[0].CPU = resource.MustParse(rapid.SampledFrom([]string{"500m", "1500m", "3"}).Draw(t, "cpu"))
		trace, at := "", 0
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			trace += fmt.Sprintf("%d,%d\n", at, rapid.IntRange(0, 20).Draw(t, "available"))
			at += rapid.IntRange(1, 3600).Draw(t, "lasts")
		}
		s.NodePools[0].Availability = available(t, trace+"100000,0\n")
		s.Workloads[0].Events = []scenario.Event{{At: after(time.Hour), Replicas: new(rapid.Int32Range(0, 20).Draw(t, "replicas"))}}
		least := optimum.Of(t.Context(), s)
		require.NotNil(t, least.Dollars, least.Note)
		r := simulate(t, s, rapid.SampledFrom(Policies).Draw(t, "policy").Name)
		missing := (r.BelowWantedReplicaMinutes + r.BelowFloorReplicaMinutes) / 60 * *s.NodePools[1].DollarsPerHour
		require.LessOrEqual(t, *least.Dollars, *r.Dollars+missing+1e-9)
	})
}
