// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/sim/scenario"
)

func after(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func TestTheCheapestNodeThatFitsIsLaunched(t *testing.T) {
	s := scenarioOf(time.Hour, 1, nil)
	small := poolOf("on-demand", 0.1)
	small.Name, small.CPU = "small", resource.MustParse("100m")
	s.NodePools = append([]scenario.NodePool{small}, s.NodePools...)
	r := simulate(t, s, "OnDemand")
	assert.Equal(t, 10, at(t, r, 30*time.Minute).Wanted-at(t, r, 30*time.Minute).Pending)
	assert.InDelta(t, r.WantedReplicaMinutes, r.ReadyReplicaMinutes, 20)
}

func TestAWorkloadWithoutAMixIsPlacedAlikeUnderEachPolicy(t *testing.T) {
	s := scenarioOf(time.Hour, 1, nil)
	want := simulate(t, s, "Berth")
	for _, p := range Policies {
		r := simulate(t, s, p.Name)
		assert.Equal(t, *want.Dollars, *r.Dollars, p.Name)
	}
}

func TestTheCapOfAMixCounts(t *testing.T) {
	s := scenarioOf(2*time.Hour, 1, &v1alpha1.CapacityMixSpec{SpotPercent: 80, MaxSpot: new(int32(3))})
	r := simulate(t, s, "Berth")
	last := r.Series[len(r.Series)-1]
	assert.Equal(t, [2]int{3, 7}, [2]int{last.ReadySpot, last.ReadyOnDemand})
	assert.Less(t, r.OffMixWorkloadMinutes, 5.0)
}

// A workload without any pod does not satisfy its mix.
func TestAWorkloadThatIsDownIsOffItsMix(t *testing.T) {
	s := scenarioOf(time.Hour, 1, &v1alpha1.CapacityMixSpec{SpotPercent: 100})
	s.NodePools[0].Max = new(int32(0))
	r := simulate(t, s, "Spot")
	assert.InDelta(t, 60, r.OffMixWorkloadMinutes, 0.1)
	assert.InDelta(t, 600, r.BelowWantedReplicaMinutes, 0.1)
}

// Launches that fail together are one failure: the pool is tried again after five minutes, and then after ten.
func TestLaunchesThatFailTogetherAreOneFailure(t *testing.T) {
	s := scenarioOf(time.Hour, 10, nil)
	s.Sample = after(gap)
	s.NodePools = s.NodePools[:1]
	s.NodePools[0].Availability = available(t, "0,0\n120,100\n3600,100\n")
	r := simulate(t, s, "Spot")
	assert.Equal(t, 100, at(t, r, gap).ReadySpot, "all are Ready after ten minutes")
}

func TestEachStepOfATraceCounts(t *testing.T) {
	s := scenarioOf(10*time.Second, 1, nil)
	s.NodePools = s.NodePools[:1]
	s.NodePools[0].Nodes = 10
	s.NodePools[0].Availability = available(t, "0,10\n1,8\n2,2\n3600,2\n")
	s.Workloads[0].Replicas = 2500 // they take longer to create than the steps last
	assert.Equal(t, 8, simulate(t, s, "Spot").Interruptions)
}

// In a rollout, a new number is divided among the ReplicaSets, as Kubernetes does.
func TestScalingDuringARollout(t *testing.T) {
	s := scenarioOf(3*time.Hour, 1, nil)
	s.Workloads[0].Replicas, s.Workloads[0].StartupSeconds = 20, 1800
	s.Workloads[0].Events = []scenario.Event{{At: after(time.Hour), Rollout: true}, {At: after(65 * time.Minute), Replicas: new(int32(2))}}
	replicas := func() int {
		w, err := newWorld(t.Context(), s, policy("OnDemand"))
		require.NoError(t, err)
		defer w.scheduler.Close()
		require.NoError(t, w.run(t.Context(), func(time.Duration) {}))
		return len(w.workloads[0].sorted(nil))
	}
	s.Duration = after(66 * time.Minute)
	assert.LessOrEqual(t, replicas(), 3)
	s.Workloads[0].Events = []scenario.Event{{At: after(time.Hour), Rollout: true, Replicas: new(int32(40))}}
	assert.Equal(t, 50, replicas(), "the old one has the new number first: of 50 with the surge, 30 are old")
}

func TestTenReplicaSetsAreKept(t *testing.T) {
	s := scenarioOf(24*time.Hour, 1, nil)
	for n := range 30 {
		s.Workloads[0].Events = append(s.Workloads[0].Events, scenario.Event{At: after(time.Duration(n+1) * 30 * time.Minute), Rollout: true})
	}
	w, err := newWorld(t.Context(), s, policy("Berth"))
	require.NoError(t, err)
	defer w.scheduler.Close()
	require.NoError(t, w.run(t.Context(), func(time.Duration) {}))
	assert.LessOrEqual(t, len(w.workloads[0].sets), revisionHistory+1)
	assert.Equal(t, 10, w.measure.now.ReadySpot+w.measure.now.ReadyOnDemand)
}

// Surge has more replicas for a moment: they are no more than wanted in the figures, and the budget counts them.
func TestASurplusIsNotCounted(t *testing.T) {
	mix := &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2, Rebalance: &v1alpha1.RebalanceSpec{
		Provisioning: v1alpha1.ProvisioningPlaceholder, Strategy: v1alpha1.RebalanceStrategySurgeOrEvict,
	}}
	s := scenarioOf(6*time.Hour, 2, mix)
	s.Sample = after(time.Second)
	s.Workloads[0].MaxUnavailable = new(intstr.FromInt32(0))
	s.NodePools[0].Availability = available(t, "0,40\n3600,0\n10800,40\n100000,40\n")
	r := simulate(t, s, "Berth")
	assert.NotZero(t, r.Moves)
	for _, x := range r.Series {
		require.LessOrEqual(t, x.ReadySpot+x.ReadyOnDemand, x.Wanted)
	}
	assert.InDelta(t, r.WantedReplicaMinutes, r.ReadyReplicaMinutes+r.BelowWantedReplicaMinutes, 1e-6)
	assert.Contains(t, Notes(scenarioOf(time.Hour, 1, &v1alpha1.CapacityMixSpec{ProtectFloor: true})),
		"workload web: the controllers and autoscalers of a simulation take no notice of protectFloor")
}

// A rebalancer that looks at all workloads every 30 seconds also while nothing changes finds nothing more, and later nothing else.
func TestARebalancerThatRestsMissesNothing(t *testing.T) {
	mix := &v1alpha1.CapacityMixSpec{SpotPercent: 70, MinOnDemand: 2, Rebalance: &v1alpha1.RebalanceSpec{Provisioning: v1alpha1.ProvisioningPlaceholder}}
	s := scenarioOf(12*time.Hour, 5, mix)
	s.NodePools[0].Availability = available(t, "0,40\n3600,2\n3611,0\n10800,40\n21607,30\n100000,40\n")
	s.Workloads[0].Events = []scenario.Event{
		{At: after(5*time.Hour + 13*time.Second), Replicas: new(int32(20))},
		{At: after(7*time.Hour + 17*time.Second), Rollout: true},
		{At: after(9*time.Hour + 19*time.Second), Replicas: new(int32(4))},
	}
	want := simulate(t, s, "Berth")
	restless := policy("Berth")
	restless.restless = true
	got, err := Run(t.Context(), s, restless, func(time.Duration) {})
	require.NoError(t, err)
	assert.Equal(t, got, want)
	assert.NotZero(t, got.Moves)
}
