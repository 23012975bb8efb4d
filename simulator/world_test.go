// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/sim/report"
	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/internal/sim/spottrace"
)

const gap = 10 * time.Minute

func poolOf(t string, price float64) scenario.NodePool {
	return scenario.NodePool{
		Name: t, CapacityType: t, Zone: "a", CPU: resource.MustParse("4"), Memory: resource.MustParse("16Gi"), Pods: 110,
		LaunchSeconds: 60, NoticeSeconds: 120, DollarsPerHour: new(price),
	}
}

// scenarioOf has a pool of each type, and workloads of ten replicas.
func scenarioOf(d time.Duration, copies int32, mix *v1alpha1.CapacityMixSpec) *scenario.Scenario {
	return &scenario.Scenario{
		Seed: 1, Duration: metav1.Duration{Duration: d}, Sample: metav1.Duration{Duration: gap},
		NodePools: []scenario.NodePool{poolOf("spot", 0.05), poolOf("on-demand", 0.2)},
		Workloads: []scenario.Workload{{
			Namespace: "shop", Name: "web", Copies: copies, Replicas: 10, CPU: resource.MustParse("500m"), Memory: resource.MustParse("1Gi"),
			StartupSeconds: 10, Mix: mix,
		}},
	}
}

func available(t require.TestingT, csv string) *scenario.Availability {
	trace, err := spottrace.Parse("trace.csv", strings.NewReader("seconds,available\n"+csv))
	require.NoError(t, err)
	return &scenario.Availability{Times: 1, Loaded: trace}
}

func policy(name string) Policy {
	for _, p := range Policies {
		if p.Name == name {
			return p
		}
	}
	panic(name)
}

func simulate(t require.TestingT, s *scenario.Scenario, name string) *report.Run {
	r, err := Run(context.Background(), s, policy(name), func(time.Duration) {})
	require.NoError(t, err)
	return r
}

// at is the point of the series at a time.
func at(t *testing.T, r *report.Run, after time.Duration) report.Sample {
	t.Helper()
	s := r.Series[int(after/gap)]
	require.InDelta(t, after.Seconds(), s.Seconds, 1)
	return s
}

func TestAMixIsKeptThroughASpotStorm(t *testing.T) {
	mix := &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2, Rebalance: &v1alpha1.RebalanceSpec{Provisioning: v1alpha1.ProvisioningPlaceholder}}
	s := scenarioOf(10*time.Hour, 5, mix)
	s.NodePools[0].Availability = available(t, "0,40\n3600,0\n10800,40\n100000,40\n")
	r := simulate(t, s, "Berth")
	before, storm, after := at(t, r, 50*time.Minute), at(t, r, 110*time.Minute), at(t, r, 5*time.Hour)
	assert.Equal(t, [2]int{35, 15}, [2]int{before.ReadySpot, before.ReadyOnDemand})
	assert.Equal(t, [2]int{0, 50}, [2]int{storm.ReadySpot, storm.ReadyOnDemand}, "all spot nodes are gone, and the replicas follow to on-demand")
	assert.Equal(t, [2]int{35, 15}, [2]int{after.ReadySpot, after.ReadyOnDemand}, "placeholders bring spot nodes back, and replicas are moved")
	assert.GreaterOrEqual(t, r.Moves, 35)
	assert.Equal(t, 35, r.InterruptedReplicas)
	for _, s := range r.Series[1:] {
		assert.Zero(t, s.BelowFloor, "at %v", s.Seconds)
	}

	s.Workloads[0].Mix = &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2}
	r = simulate(t, s, "Berth")
	assert.Equal(t, 50, at(t, r, 5*time.Hour).ReadyOnDemand, "by default, nothing requests nodes for a move")
	assert.Zero(t, r.Moves)
	s.Workloads[0].Mix = &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2, WhenSpotUnavailable: v1alpha1.WhenSpotUnavailableWait}
	assert.Equal(t, 35, at(t, simulate(t, s, "Berth"), 110*time.Minute).Pending, "the mix has them wait")
}

func TestPoliciesWithoutBerth(t *testing.T) {
	s := scenarioOf(2*time.Hour, 2, &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2})
	onDemand, spot, spread := simulate(t, s, "OnDemand"), simulate(t, s, "Spot"), simulate(t, s, "TopologySpread")
	assert.Zero(t, onDemand.SpotNodeHours)
	assert.Zero(t, spot.OnDemandNodeHours)
	assert.InDelta(t, *onDemand.Dollars, onDemand.OnDemandNodeHours*0.2, 1e-9)
	assert.InDelta(t, *spot.Dollars, spot.SpotNodeHours*0.05, 1e-9)
	last := at(t, spread, 110*time.Minute)
	assert.Equal(t, [2]int{10, 10}, [2]int{last.ReadySpot, last.ReadyOnDemand})
	assert.InDelta(t, 4*100, spot.BelowFloorReplicaMinutes, 4*21, "the floor of two workloads is on spot nodes all the time")
	assert.InDelta(t, spot.WantedReplicaMinutes, spot.ReadyReplicaMinutes+spot.BelowWantedReplicaMinutes, 1e-6)
	assert.Equal(t, 20*120.0, spot.WantedReplicaMinutes)

	s.NodePools[0].DollarsPerHour = nil
	assert.Nil(t, simulate(t, s, "Spot").Dollars, "a price is unknown")
	assert.NotNil(t, simulate(t, s, "OnDemand").Dollars, "the pool without a price is not used")
	assert.Equal(t, []string{"node pool spot has no price: what a run costs that uses it is unknown"}, Notes(s))
}

// The size of a workload changes, and its template does. In the end, all replicas are Ready in their mix.
func TestPropertyAWorkloadIsExactInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mix := split.New(rapid.Int32Range(0, 100).Draw(t, "percent"), rapid.Int32Range(0, 5).Draw(t, "floor"))
		s := scenarioOf(6*time.Hour, 1, &v1alpha1.CapacityMixSpec{
			SpotPercent: mix.SpotPercent, MinOnDemand: mix.MinOnDemand, Rebalance: &v1alpha1.RebalanceSpec{Provisioning: v1alpha1.ProvisioningPlaceholder},
		})
		wanted, passed := int32(10), time.Hour
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			passed += time.Duration(rapid.IntRange(0, 1800).Draw(t, "pause")) * time.Second
			e := scenario.Event{At: metav1.Duration{Duration: passed}}
			if e.Rollout = rapid.Bool().Draw(t, "rollout"); !e.Rollout {
				wanted = rapid.Int32Range(0, 30).Draw(t, "replicas")
				e.Replicas = new(wanted)
			}
			s.Workloads[0].Events = append(s.Workloads[0].Events, e)
		}
		if rapid.Bool().Draw(t, "budget") {
			s.Workloads[0].MaxUnavailable = new(intstr.FromString("30%"))
		}
		r := simulate(t, s, "Berth")
		last := r.Series[len(r.Series)-1]
		require.Equal(t, []int{mix.Spot(int(wanted)), int(wanted) - mix.Spot(int(wanted)), 0}, []int{last.ReadySpot, last.ReadyOnDemand, last.Pending})
	})
}

// The same scenario and seed give the same bytes, and another seed gives others.
func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	s := scenarioOf(48*time.Hour, 2, &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 1, Rebalance: &v1alpha1.RebalanceSpec{Provisioning: v1alpha1.ProvisioningPlaceholder}})
	s.NodePools[0].Availability = &scenario.Availability{MonthlyInterruptionPercent: new(99.9)}
	s.Workloads[0].Events = []scenario.Event{
		{At: metav1.Duration{Duration: 5 * time.Hour}, Replicas: new(int32(40))},
		{At: metav1.Duration{Duration: 6 * time.Hour}, Rollout: true},
		{At: metav1.Duration{Duration: 7 * time.Hour}, Replicas: new(int32(7))},
	}
	for _, p := range Policies {
		if s.Workloads[0].Copies = 2; p.Mixes {
			s.Workloads[0].Copies = 10
		}
		bytes := func() string {
			text, err := json.Marshal(simulate(t, s, p.Name))
			require.NoError(t, err)
			return string(text)
		}
		s.Seed = 1
		first := bytes()
		for range 2 {
			require.Equal(t, first, bytes(), p.Name)
		}
		s.Seed = 2
		assert.Equal(t, p.Name == "OnDemand", first == bytes(), "%s: spot nodes are interrupted at other times", p.Name)
	}
}

func TestASimulationIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reached := time.Duration(0)
	_, err := Run(ctx, scenarioOf(300*24*time.Hour, 1, nil), policy("OnDemand"), func(at time.Duration) {
		if reached = at; at > time.Hour {
			cancel(errors.New("enough"))
		}
	})
	require.ErrorContains(t, err, "enough")
	assert.Contains(t, err.Error(), "policy OnDemand, after ")
	assert.Less(t, reached, 299*24*time.Hour)
}

// What the scheduler and the rebalancer request is served, but for kinds that an API server may not have either.
func TestWhatIsRequestedIsServed(t *testing.T) {
	mix := &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2, Rebalance: &v1alpha1.RebalanceSpec{
		Provisioning: v1alpha1.ProvisioningPlaceholder, Strategy: v1alpha1.RebalanceStrategySurgeOrEvict,
	}}
	s := scenarioOf(6*time.Hour, 2, mix)
	s.NodePools[0].Availability = available(t, "0,40\n3600,0\n10800,40\n100000,40\n")
	w, err := newWorld(t.Context(), s, policy("Berth"))
	require.NoError(t, err)
	defer w.scheduler.Close()
	require.NoError(t, w.run(t.Context(), func(time.Duration) {}))
	require.NotZero(t, w.measure.run(w).Moves)
	for request := range w.api.Refused() {
		assert.Regexp(t, absent, request)
	}
}
