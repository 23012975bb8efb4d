// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// published are the names that releases have had, with those that have each property. A new reason needs no entry.
const (
	published = "BackingOff CapacityUnproven ClusterBudget CountsAsFailure DisruptionBudget DoNotDisrupt DryRun EvictionFailed " +
		"EvictionRefused FixedNode InsufficientCapacity InvalidWindow LimitRange LocalStorage MaxUnavailable MixBudget Move " +
		"MoveUnrecorded NoController NoGain NotReady Off OnDemandFloor OnTarget OtherScheduler OutsideWindow " +
		"OverlappingDisruptionBudgets OwnerEnded Pinned PlaceholderRefused PodChanged PodGroupMember PodsPending Provisioning " +
		"QuotaExceeded ReplacementRefused ReplacementUnknown ReplicasMissing ReportOnly RollingOut SpotStorm SpotUnavailable " +
		"Stabilizing StaleView StartupGrace Waiting"
	dropsPlaceholder = "CountsAsFailure DoNotDisrupt FixedNode LocalStorage NoController NoGain Off OnTarget OtherScheduler " +
		"OutsideWindow OwnerEnded Pinned PodGroupMember ReplacementRefused ReplacementUnknown RollingOut SpotUnavailable"
	quiet      = "ClusterBudget MixBudget Move Off OnTarget PodChanged Provisioning RollingOut Stabilizing StaleView StartupGrace"
	lifted     = "BackingOff NotReady OutsideWindow RollingOut Stabilizing"
	ofReplica  = "DryRun InsufficientCapacity PodChanged ReportOnly"
	ofRevision = "FixedNode OtherScheduler Pinned PodGroupMember ReplacementRefused ReplacementUnknown"
)

// Alerts, scripts and dashboards match the names; the rebalancer treats each reason by its properties.
func TestReasonsKeepTheirNamesAndProperties(t *testing.T) {
	byName := map[string]*Reason{}
	for _, r := range Reasons() {
		require.NotContains(t, byName, r.Name)
		byName[r.Name] = r
	}
	for name := range strings.FieldsSeq(published) {
		r := byName[name]
		require.NotNil(t, r, name)
		in := func(list string) bool { return slices.Contains(strings.Fields(list), name) }
		assert.Equal(t, in(dropsPlaceholder), r.DropsPlaceholder, name)
		assert.Equal(t, in(quiet), r.Quiet, name)
		assert.Equal(t, in(lifted), r.Lift != nil, name)
		assert.Equal(t, !in(ofReplica), r.Holds(&clusterstate.Group{}), name)
		assert.Equal(t, !in(ofReplica) && !in(ofRevision), r.Holds(&clusterstate.Group{Identity: true}), name)
	}
}

func TestEveryReasonIsDocumented(t *testing.T) {
	for _, r := range Reasons() {
		assert.Equal(t, r == ReasonMove, r.Meaning == "", r.Name)
		for _, cell := range []string{r.Meaning, r.Ends, r.Action} {
			assert.NotContains(t, cell, "|", r.Name)
			assert.NotContains(t, cell, "\n", r.Name)
		}
	}
}

// A reason that time ends cannot be given without the time: the workload would wait for an event that never comes.
func TestNoTimedReasonIsGivenWithoutItsTime(t *testing.T) {
	for _, r := range Reasons() {
		if r.Timed {
			assert.Panics(t, func() { r.because("why") }, r.Name)
			assert.Panics(t, func() { r.until(time.Time{}, "why") }, r.Name)
		} else {
			assert.Equal(t, Verdict{Reason: r, Message: "why 1"}, r.because("why %d", 1))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(Reasons()).Draw(t, "reason")
		at := time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "at"), 0)
		require.Equal(t, Verdict{Reason: r, RetryAt: at, Message: "why"}, r.until(at, "why"))
	})
}

// kubectl berth plan continues after a cause that only delays moves.
func TestALiftedReasonIsGone(t *testing.T) {
	now := time.Unix(1e9, 0)
	windows, err := ParseWindows([]Window{{Schedule: "0 3 * * *", Duration: time.Hour}})
	require.NoError(t, err)
	for _, c := range []struct {
		refuses check
		in      Input
	}{
		{paused, Input{Cluster: Cluster{Pauses: []Pause{{Scope: PausedNamespace, Name: "shop"}}}, Settings: Settings{Paused: &Pause{Scope: PausedMix}}}},
		{notInCanary, Input{Cluster: Cluster{Canary: &Canary{}}, Group: clusterstate.Group{Governing: &governing.Mix{}}}},
		{healthGate, Input{Cluster: Cluster{Health: &Health{State: HealthUnknown}}}},
		{overPace, Input{Cluster: Cluster{Pace: Pace{Limit: 1, Held: 1}}}},
		{overPace, Input{History: History{Pace: Pace{Limit: 1, Held: 1}}}},
		{rollingOut, Input{Group: clusterstate.Group{Rollout: clusterstate.Rollout{Rolling: true}}}},
		{stabilizing, Input{History: History{WrongSince: now}, Settings: Settings{Stabilization: time.Hour}}},
		{backingOff, Input{History: History{RetryAt: now.Add(time.Hour)}}},
		{outsideWindow, Input{Settings: Settings{Windows: windows}}},
		{notReady, Input{Group: clusterstate.Group{Assignments: []clusterstate.Assignment{{Place: clusterstate.Settled, Pod: &clusterstate.Pod{}}}}}},
	} {
		in := c.in
		in.Cluster.Now = now
		v := c.refuses(&subject{Input: &in})
		require.NotNil(t, v.Reason)
		v.Reason.Lift(&in)
		assert.Zero(t, c.refuses(&subject{Input: &in}), v.Reason.Name)
	}
}
